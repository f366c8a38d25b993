"""A simulated Sensirion SHT40. Source: SHT4x datasheet (Sensirion, version 6)."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

from growd_hwsim.chamber import Air
from growd_hwsim.chip import INSTANT, AirCell
from growd_hwsim.i2c import FAULTS, I2CSlave, NoAcknowledgeError
from growd_hwsim.sensirion import FULL_WORD, TEMPERATURE_FRAME, temperature_word, with_crcs

if TYPE_CHECKING:
    from collections.abc import Callable

SOFT_RESET, SERIAL_NUMBER = 0x94, 0x89
MEASUREMENTS = {0xFD: 0.0083, 0xF6: 0.0045, 0xE0: 0.0016}
"""The longest duration in s, by precision: high, medium, low (table 5)."""
RESPONSE_S = Air(0.0, 2.0, 4.0)
"""Response times (63 % of a step) in s of temperature and humidity: tables 1 and 2."""
_RESET_S = 0.001
_SERIAL = bytes.fromhex("0f1a2b3c")


class SimulatedSht4x(I2CSlave):
    """An SHT40 in the air of `air()`, on the time of `monotonic`. It has no heater.

    Noise is Gaussian, cut off at the repeatability (0.04 degC, 0.08 percent).
    """

    name = "sht4x"
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
        self._noise = random.Random(f"sht4x {seed}")  # noqa: S311  noise, not secrets
        self.power_cycle()
        self._busy_until = monotonic()  # it has had power for a while

    def follow_at_once(self) -> None:
        """Have no lag."""
        self._cell.response_s = INSTANT

    def power_cycle(self) -> None:
        """Lose and regain power, or be reset."""
        self._answer: bytes | None = None
        self._busy_until = self._monotonic() + _RESET_S

    def on_write(self, data: bytes) -> None:
        """A command of one byte."""
        if len(data) != 1 or self._monotonic() < self._busy_until:
            raise NoAcknowledgeError
        (command,) = data
        self._answer = None
        if command in MEASUREMENTS:
            self._answer = self._measured()
            self._busy_until = self._monotonic() + MEASUREMENTS[command]
        elif command == SERIAL_NUMBER:
            self._answer = _SERIAL
        elif command == SOFT_RESET:
            self.power_cycle()
        else:
            raise NoAcknowledgeError

    def on_read(self, length: int) -> bytes:
        """The answer to the last command, once. A read that comes too early is not acknowledged."""
        if self._answer is None or self._monotonic() < self._busy_until:
            raise NoAcknowledgeError
        words, self._answer = self._answer, None
        return with_crcs(words)[:length]

    def _measured(self) -> bytes:
        air = self._cell.air()
        degc = air.temperature_degc + self._jitter(0.015, 0.04)
        percent = air.humidity_percent + self._jitter(0.03, 0.08)
        humidity_word = round((percent + 6.0) / 125.0 * FULL_WORD)  # 4.6: from -6 to 119 percent
        return struct.pack(">HH", temperature_word(degc), min(max(humidity_word, 0), FULL_WORD))

    def _jitter(self, deviation: float, limit: float) -> float:
        return min(max(self._noise.gauss(0.0, deviation), -limit), limit)
