"""Bosch BME280: temperature, humidity and air pressure, computed by Adafruit's driver.

Source: BME280 datasheet (Bosch Sensortec, revision 1.23).

The transfers are ours. Adafruit's driver would make a measurement of its own for each value, wait for it
without a limit, and take the registers of a chip that has lost its power for a measurement (a plausible one).
The chip has no checksums.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from growd_drivers.adafruit import AdafruitChip, private_copy
from growd_drivers.errors import NotReadyError, TransferError, WrongDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x76
"""With the SDO pin low; 0x77 with it high, as on Adafruit's board."""

_CHIP_ID = 0x60
_OTHERS = {0x58: "a BMP280, which has no humidity", 0x61: "a BME680"}
_ID, _CTRL_HUM, _STATUS, _CTRL_MEAS, _DATA = 0xD0, 0xF2, 0xF3, 0xF4, 0xF7  # table 18
_HUMIDITY_X1 = 0x01  # ctrl_hum
_FORCED_T_X2_P_X16 = 0b010_101_01  # ctrl_meas: one measurement, then sleep
_LONGEST_CONVERSION_S = 0.0461  # 9.1: 1.25 + 2.3 x 2 + 2.3 x 16 + 0.575 + 2.3 + 0.575 ms
_MEASURING = 0x08  # status
_FRAME_LENGTH = 0xFE - _STATUS + 1
_NOTHING_MEASURED = bytes.fromhex("8000008000008000")  # 5.4.7 to 5.4.9: pressure, temperature, humidity


@dataclass(frozen=True)
class Bme280Sample:
    """Degrees Celsius, percent relative humidity, hectopascal."""

    temperature_degc: float
    humidity_percent: float
    pressure_hpa: float


class Bme280:
    """A BME280 that measures once for each reading, which sends all settings again.

    Its coefficients are read twice at the first reading and after it was missing, since an error in them
    would last. The constructor does not talk to the chip.
    """

    def __init__(self, bus: I2CBus, *, sleep: Callable[[float], None], address: int = ADDRESS) -> None:
        self._registers = _Registers(bus, address, sleep)
        self._chip = AdafruitChip(
            bus,
            address,
            "BME280",
            load=partial(private_copy, "adafruit_bme280.basic", sleep=sleep),
            open_chip=self._set_up,
        )

    def read(self) -> Bme280Sample:
        """Measure now. Blocks for 46 ms.

        Raises `WrongDeviceError` if another chip answers, `NotReadyError` if it lost power while it measured,
        `DeviceMissingError` or `TransferError` for a failed transfer.
        """
        with self._chip.used() as chip, self._registers.measured():
            return Bme280Sample(chip.temperature, chip.humidity, chip.pressure)

    def _set_up(self, adafruit: Any) -> Any:
        self._registers.identify()
        return adafruit.Adafruit_BME280(self._registers)


class _Registers:
    """The registers of the chip, as the `bus_implementation` of Adafruit's class.

    Within `measured()` its reads come from one measurement, and its writes, which would start others, do
    nothing.
    """

    def __init__(self, bus: I2CBus, address: int, sleep: Callable[[float], None]) -> None:
        self._bus = bus
        self._address = address
        self._sleep = sleep
        self._frame = b""

    def read_register(self, register: int, length: int) -> bytearray:
        """Registers from the measurement, or else from the chip, which is asked twice."""
        if self._frame:
            return bytearray(self._frame[register - _STATUS :][:length])
        answer = self._read(register, length)
        if self._read(register, length) != answer:
            sentence = f"{self._bus.name_of(self._address)} answered the same question in two ways"
            raise TransferError(sentence, device="BME280", address=self._address, errno=errno.EBADMSG)
        return bytearray(answer)

    def write_register_byte(self, register: int, value: int) -> None:
        """Write one register."""
        if not self._frame:
            self._bus.writeto(self._address, bytes([register, value]))

    def identify(self) -> None:
        """Raise `WrongDeviceError` for another chip."""
        found = self._read(_ID, 1)[0]
        if found != _CHIP_ID:
            other = _OTHERS.get(found, "another chip")
            sentence = (
                f"{self._bus.name_of(self._address)} is {other}: it has the device id {found:#04x}, "
                f"a BME280 {_CHIP_ID:#04x}"
            )
            raise WrongDeviceError(sentence, device="BME280", found=found, expected=_CHIP_ID)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """One measurement of all values."""
        self._frame = self._measure()
        try:
            yield
        finally:
            self._frame = b""

    def _measure(self) -> bytes:
        """The registers from STATUS on, read at once (4: "strongly recommended to use a burst read")."""
        self.write_register_byte(_CTRL_HUM, _HUMIDITY_X1)  # takes effect with the next write
        self.write_register_byte(_CTRL_MEAS, _FORCED_T_X2_P_X16)
        self._sleep(_LONGEST_CONVERSION_S)
        frame = self._read(_STATUS, _FRAME_LENGTH)
        if frame[0] & _MEASURING or frame[_DATA - _STATUS :] == _NOTHING_MEASURED:
            raise NotReadyError(
                f"{self._bus.name_of(self._address)} has no finished measurement: did it lose power?",
                device="BME280",
            )
        return frame

    def _read(self, register: int, length: int) -> bytes:
        answer = bytearray(length)
        self._bus.writeto_then_readfrom(self._address, bytes([register]), answer)
        return bytes(answer)
