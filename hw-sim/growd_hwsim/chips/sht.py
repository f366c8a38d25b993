"""Simulated Sensirion SHT31 and SHT40.

Sources: SHT3x-DIS datasheet (Sensirion, version 7), SHT4x datasheet (Sensirion, version 6).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar

from growd_hwsim.chamber import Air
from growd_hwsim.i2c import FAULTS, NoAcknowledgeError
from growd_hwsim.sensirion import (
    FULL_WORD,
    TEMPERATURE_FRAME,
    decoded,
    humidity_word,
    temperature_word,
    with_crcs,
)
from growd_hwsim.sensors import AirSensor

if TYPE_CHECKING:
    from collections.abc import Callable


class ShtChip(AirSensor):
    """A chip in the air of `air()`, on the time of `monotonic`. It measures when asked, and answers once.

    Noise is Gaussian, cut off at the repeatability.
    """

    measurement = TEMPERATURE_FRAME
    faults = (*FAULTS, "bad_crc", "wrong_order")

    response_s: ClassVar[Air]
    """Response times (63 % of a step) in s of temperature and humidity."""
    reset_s: ClassVar[float]
    """The longest duration of a reset in s."""
    noise: ClassVar[tuple[tuple[float, float], tuple[float, float]]]
    """Standard deviation and limit of the noise, of temperature in degC and of humidity in percent."""

    def __init__(
        self,
        air: Callable[[], Air],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        response_s: Air | None = None,
    ) -> None:
        super().__init__(air, monotonic, response_s or self.response_s, seed=seed)
        self._busy_until = monotonic()  # it has had power for a while

    def power_cycle(self) -> None:
        """Lose and regain power, or be reset."""
        self._answer: bytes | None = None
        self._keep_busy(self.reset_s)

    def on_read(self, length: int) -> bytes:
        """The answer to the last command, once. A read that comes too early is not acknowledged."""
        if self._answer is None or self._is_busy():
            raise NoAcknowledgeError
        words, self._answer = self._answer, None
        return with_crcs(words)[:length]

    def _is_busy(self) -> bool:
        return self._monotonic() < self._busy_until

    def _keep_busy(self, seconds: float) -> None:
        self._busy_until = self._monotonic() + seconds

    def _measure(self, seconds: float) -> None:
        air = self._cell.air()
        degc, percent = (
            value + self._jitter(deviation, limit)
            for value, (deviation, limit) in zip(air[1:], self.noise, strict=True)
        )
        self._answer = struct.pack(">HH", temperature_word(degc), self._humidity_word(percent))
        self._keep_busy(seconds)

    def _humidity_word(self, percent: float) -> int:
        raise NotImplementedError


BREAK, SOFT_RESET, STATUS, CLEAR_STATUS = 0x3093, 0x30A2, 0xF32D, 0x3041
HEATER_ON, HEATER_OFF = 0x306D, 0x3066
SINGLE_SHOTS = {0x2400: 0.015, 0x240B: 0.006, 0x2416: 0.004}
"""The longest duration in s, by repeatability: high, medium, low (tables 4 and 9)."""
WAS_RESET, _HEATER_IS_ON = 0x0010, 0x2000  # table 18


class SimulatedSht3x(ShtChip):
    """An SHT31. It has no periodic mode."""

    name = "sht3x"
    response_s = Air(0.0, 2.0, 8.0)  # tables 1 and 2
    reset_s = 0.0015
    noise = ((0.03, 0.08), (0.08, 0.2))

    def power_cycle(self) -> None:
        """Lose and regain power, or be reset: idle, the heater is off."""
        super().power_cycle()
        self.status = WAS_RESET

    def on_write(self, data: bytes) -> None:
        """A command word."""
        command, argument = decoded(data)
        if argument is not None or self._is_busy():
            raise NoAcknowledgeError
        self._answer = None
        if command in SINGLE_SHOTS:
            self._measure(SINGLE_SHOTS[command])
        elif command == SOFT_RESET:
            self.power_cycle()
        elif command == STATUS:
            self._answer = struct.pack(">H", self.status)
        elif command == CLEAR_STATUS:
            self.status &= ~WAS_RESET
        elif command == HEATER_ON:
            self.status |= _HEATER_IS_ON
        elif command == HEATER_OFF:
            self.status &= ~_HEATER_IS_ON
        elif command != BREAK:
            raise NoAcknowledgeError

    def _humidity_word(self, percent: float) -> int:
        return humidity_word(percent)


SHT4X_SOFT_RESET, SERIAL_NUMBER = 0x94, 0x89
MEASUREMENTS = {0xFD: 0.0083, 0xF6: 0.0045, 0xE0: 0.0016}
"""The longest duration in s, by precision: high, medium, low (table 5)."""
_SERIAL = bytes.fromhex("0f1a2b3c")


class SimulatedSht4x(ShtChip):
    """An SHT40. It has no heater."""

    name = "sht4x"
    response_s = Air(0.0, 2.0, 4.0)  # tables 1 and 2
    reset_s = 0.001
    noise = ((0.015, 0.04), (0.03, 0.08))

    def on_write(self, data: bytes) -> None:
        """A command of one byte."""
        if len(data) != 1 or self._is_busy():
            raise NoAcknowledgeError
        (command,) = data
        self._answer = None
        if command in MEASUREMENTS:
            self._measure(MEASUREMENTS[command])
        elif command == SERIAL_NUMBER:
            self._answer = _SERIAL
        elif command == SHT4X_SOFT_RESET:
            self.power_cycle()
        else:
            raise NoAcknowledgeError

    def _humidity_word(self, percent: float) -> int:
        """From -6 to 119 percent (section 4.6)."""
        return min(max(round((percent + 6.0) / 125.0 * FULL_WORD), 0), FULL_WORD)
