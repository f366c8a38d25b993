"""Maxim DS18B20: temperature, over the kernel's driver w1_therm.

Sources: DS18B20 datasheet (19-7487, Rev 6); Linux, Documentation/w1/slaves/w1_therm.rst.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from growd_drivers.errors import (
    DeviceMissingError,
    HardwareUnavailableError,
    SettingError,
    TransferError,
)
from growd_drivers.one_wire import USUAL_PIN

if TYPE_CHECKING:
    from growd_drivers.one_wire import OneWireFiles

_ANSWER = re.compile(
    r"(?P<bytes>(?:[0-9a-f]{2} ){9}): crc=[0-9a-f]{2} (?P<crc>YES|NO)\s.*\bt=(?P<millidegc>-?\d+)\s*",
    re.DOTALL,
)
_CONFIGURATION = 4  # byte of the scratchpad
_ALWAYS_ONE = 0x1F  # bits of it (figure 10)


@dataclass(frozen=True)
class Ds18b20Sample:
    """Temperature in degrees Celsius."""

    temperature_degc: float


class Ds18b20:
    """A DS18B20 by its id, such as "28-0316a4ef5dff", or by a pattern that only one device matches.

    `pin` is the GPIO of the bus, for messages. The constructor does not talk to the device.
    """

    def __init__(self, files: OneWireFiles, *, device: str = "28-*", pin: int | None = None) -> None:
        self._files = files
        self._device = device
        self._pin = USUAL_PIN if pin is None else pin

    def read(self) -> Ds18b20Sample:
        """Measure now. Blocks 0.75 s.

        Raises `HardwareUnavailableError` without a 1-wire bus, `DeviceMissingError` without the device,
        `SettingError` if several devices match, `TransferError` for a failed transfer or a wrong checksum.
        """
        name = self._found()
        try:
            text = self._files.read(f"{name}/w1_slave")
        except FileNotFoundError:  # it was lost meanwhile
            raise self._missing([]) from None
        except OSError as error:
            raise self._failed(f"can't be read: {error.strerror or error}", error.errno) from error
        return Ds18b20Sample(self._checked(text))

    def _found(self) -> str:
        try:
            names = self._files.names()
        except OSError as error:
            raise self._failed(f"can't be read: {error.strerror or error}", error.errno) from error
        if not any(name.startswith("w1_bus_master") for name in names):
            raise HardwareUnavailableError(
                "1-wire is not switched on: run growd setup-pi, or write dtoverlay=w1-gpio into "
                "/boot/firmware/config.txt, and reboot",
                device="DS18B20",
            )
        matching = [name for name in names if fnmatchcase(name, self._device)]
        if not matching:
            raise self._missing([name for name in names if name.startswith("28-")])
        if len(matching) > 1:
            sentence = f"DS18B20 {self._device} may be {' or '.join(matching)}: set device to one of them"
            raise SettingError(sentence, device="DS18B20")
        return matching[0]

    def _checked(self, text: str) -> float:
        found = _ANSWER.fullmatch(text)
        if found is None:
            raise self._failed("sent no measurement", errno.EBADMSG)
        scratchpad = bytes.fromhex(found["bytes"])
        # A line that is short-circuited to ground reads as zeros, whose checksum is right.
        if found["crc"] != "YES" or scratchpad[_CONFIGURATION] & _ALWAYS_ONE != _ALWAYS_ONE:
            raise self._failed("sent data with a wrong checksum", errno.EBADMSG)
        return int(found["millidegc"]) / 1000

    def _missing(self, others: list[str]) -> DeviceMissingError:
        there = f"there is {', '.join(others)}" if others else "nothing answers there"
        sentence = (
            f"DS18B20 {self._device} is not on the 1-wire bus of GPIO {self._pin}; {there}: check its "
            "wiring, and the resistor of 4.7 kOhm from data to 3.3 V"
        )
        return DeviceMissingError(sentence, device="DS18B20", address=None, errno=errno.ENODEV)

    def _failed(self, reason: str, number: int | None) -> TransferError:
        return TransferError(f"DS18B20 {self._device} {reason}", device="DS18B20", address=None, errno=number)
