"""A simulated Sensirion SHT31. Source: SHT3x-DIS datasheet (Sensirion, version 7)."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

from growd_hwsim.chamber import Air
from growd_hwsim.chip import INSTANT, AirCell
from growd_hwsim.i2c import FAULTS, I2CSlave, NoAcknowledgeError
from growd_hwsim.sensirion import TEMPERATURE_FRAME, decoded, humidity_word, temperature_word, with_crcs

if TYPE_CHECKING:
    from collections.abc import Callable

BREAK, SOFT_RESET, STATUS, CLEAR_STATUS = 0x3093, 0x30A2, 0xF32D, 0x3041
HEATER_ON, HEATER_OFF = 0x306D, 0x3066
SINGLE_SHOTS = {0x2400: 0.015, 0x240B: 0.006, 0x2416: 0.004}
"""The longest duration in s, by repeatability: high, medium, low (tables 4 and 9)."""
RESPONSE_S = Air(0.0, 2.0, 8.0)
"""Response times (63 % of a step) in s of temperature and humidity: tables 1 and 2."""
WAS_RESET, _HEATER_IS_ON = 0x0010, 0x2000  # table 18
_RESET_S = 0.0015


class SimulatedSht3x(I2CSlave):
    """An SHT31 in the air of `air()`, on the time of `monotonic`. It has no periodic mode.

    Noise is Gaussian, cut off at the repeatability (0.08 degC, 0.2 percent).
    """

    name = "sht3x"
    measurement = TEMPERATURE_FRAME
    faults = (*FAULTS, "bad_crc", "wrong_order")

    def __init__(
        self,
        air: Callable[[], Air],
        monotonic: Callable[[], float],
        *,
        seed: int = 0,
        response_s: Air = RESPONSE_S,
    ) -> None:
        super().__init__()
        self._cell = AirCell(air, monotonic, response_s)
        self._monotonic = monotonic
        self._noise = random.Random(f"sht3x {seed}")  # noqa: S311  noise, not secrets
        self.power_cycle()
        self._busy_until = monotonic()  # it has had power for a while

    def follow_at_once(self) -> None:
        """Have no lag."""
        self._cell.response_s = INSTANT

    def power_cycle(self) -> None:
        """Lose and regain power, or be reset: idle, the heater is off."""
        self.status = WAS_RESET
        self._answer: bytes | None = None
        self._busy_until = self._monotonic() + _RESET_S

    def on_write(self, data: bytes) -> None:
        """A command word."""
        command, argument = decoded(data)
        if argument is not None or self._monotonic() < self._busy_until:
            raise NoAcknowledgeError
        self._answer = None
        if command in SINGLE_SHOTS:
            self._answer = self._measured()
            self._busy_until = self._monotonic() + SINGLE_SHOTS[command]
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

    def on_read(self, length: int) -> bytes:
        """The answer to the last command, once. A read that comes too early is not acknowledged."""
        if self._answer is None or self._monotonic() < self._busy_until:
            raise NoAcknowledgeError
        words, self._answer = self._answer, None
        return with_crcs(words)[:length]

    def _measured(self) -> bytes:
        air = self._cell.air()
        degc = air.temperature_degc + self._jitter(0.03, 0.08)
        percent = air.humidity_percent + self._jitter(0.08, 0.2)
        return struct.pack(">HH", temperature_word(degc), humidity_word(percent))

    def _jitter(self, deviation: float, limit: float) -> float:
        return min(max(self._noise.gauss(0.0, deviation), -limit), limit)
