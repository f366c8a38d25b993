"""A simulated Sensirion SHT40. Source: SHT4x datasheet (Sensirion, version 6)."""

from __future__ import annotations

from growd_hwsim.chamber import Air
from growd_hwsim.i2c import NoAcknowledgeError
from growd_hwsim.sensirion import FULL_WORD
from growd_hwsim.sht import ShtChip

SOFT_RESET, SERIAL_NUMBER = 0x94, 0x89
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
        elif command == SOFT_RESET:
            self.power_cycle()
        else:
            raise NoAcknowledgeError

    def _humidity_word(self, percent: float) -> int:
        """From -6 to 119 percent (section 4.6)."""
        return min(max(round((percent + 6.0) / 125.0 * FULL_WORD), 0), FULL_WORD)
