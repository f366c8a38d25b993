"""Simulated Maxim DS18B20, and /sys/bus/w1/devices, where they are.

Sources: DS18B20 datasheet (19-7487, Rev 6); Linux, drivers/w1/slaves/w1_therm.c, w1_slave_show.
"""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING

from growd_hwsim.chip import Chip, Measurement
from growd_hwsim.errors import kernel_error
from growd_hwsim.i2c import I2CMessage, NoAcknowledgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd_hwsim.faults import Faults

CONVERSION_S = 0.75  # at 12 bits, the usual resolution
_STEPS_PER_DEGC = 16
_LOWEST_DEGC, _HIGHEST_DEGC = -55.0, 125.0
_ALARMS_AND_CONFIGURATION = bytes((0x4B, 0x46, 0x7F))
_AFTER_POWER_ON = bytes((0x50, 0x05, *_ALARMS_AND_CONFIGURATION, 0xFF, 0x0C, 0x10))


def crc8(data: bytes) -> int:
    """CRC-8 with polynomial x^8 + x^5 + x^4 + 1, the lowest bit first ("CRC Generation")."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x8C if crc & 1 else 0)
    return crc


def with_crc(data: bytes) -> bytes:
    """The scratchpad: eight bytes and their CRC-8."""
    return data + bytes([crc8(data)])


def _scratchpad(degc: float) -> bytes:
    steps = round(min(max(degc, _LOWEST_DEGC), _HIGHEST_DEGC) * _STEPS_PER_DEGC)
    register = steps.to_bytes(2, "little", signed=True)
    return with_crc(register + _ALARMS_AND_CONFIGURATION + bytes((0xFF, 0x10 - (steps & 0x0F), 0x10)))


def degc_in(scratchpad: bytes) -> float:
    """The temperature that a scratchpad means."""
    return int.from_bytes(scratchpad[:2], "little", signed=True) / _STEPS_PER_DEGC


class SimulatedDs18b20(Chip):
    """A DS18B20 at `truth()` degrees Celsius, with noise of half a step."""

    name = "ds18b20"
    measurement = Measurement(9, _HIGHEST_DEGC, degc_in, lambda _, degc: _scratchpad(degc), unit="degC")
    faults = ("absent", "bus_error", "hang", "bad_crc", "warm_up", "frozen", "noise", "drift", "saturated")
    warm_up_answer = with_crc(_AFTER_POWER_ON)

    def __init__(self, truth: Callable[[], float], *, seed: int = 0) -> None:
        self._truth = truth
        self._noise = random.Random(f"ds18b20 {seed}")  # noqa: S311  noise, not secrets

    def convert(self) -> bytes:
        """The scratchpad after a conversion."""
        return _scratchpad(self._truth() + self._noise.gauss(0.0, 0.5 / _STEPS_PER_DEGC))


_BUS = 100  # as the wire of faults knows it; no I2C bus has this number


class SimulatedOneWire:
    """As `growd_drivers.one_wire.OneWireFiles`, with thermometers by their ids.

    Without a thermometer 1-wire is not switched on.
    """

    def __init__(
        self,
        thermometers: Sequence[tuple[str, SimulatedDs18b20]],
        faults: Faults,
        sleep: Callable[[float], None],
    ) -> None:
        self.thermometers = dict(thermometers)
        self._places = {name: place for place, name in enumerate(self.thermometers)}
        self._faults = faults
        self._sleep = sleep

    def names(self) -> list[str]:
        """The bus, and the thermometers that answer."""
        return [*self.thermometers, "w1_bus_master1"] if self.thermometers else []

    def read(self, path: str, /) -> str:
        """The file w1_slave of a thermometer, after a conversion."""
        name, _, file = path.partition("/")
        if name not in self.thermometers or file != "w1_slave":
            raise kernel_error(errno.ENOENT)
        message = I2CMessage(_BUS, self._places[name], self.thermometers[name].name, None, 9)
        self._faults.hold(message)
        self._sleep(CONVERSION_S)
        try:
            scratchpad = self._faults.wire(message, lambda _: self.thermometers[name].convert())
        except NoAcknowledgeError:
            raise kernel_error(errno.ENOENT) from None
        return _shown(scratchpad)


def _shown(scratchpad: bytes) -> str:
    octets, crc = scratchpad.hex(" "), crc8(scratchpad[:8])
    verdict = "YES" if crc == scratchpad[8] else "NO"
    return f"{octets} : crc={crc:02x} {verdict}\n{octets} t={round(1000 * degc_in(scratchpad))}\n"
