"""A simulated Sensirion SHT31. Source: SHT3x-DIS datasheet (Sensirion, version 7)."""

from __future__ import annotations

import struct

from growd_hwsim.chamber import Air
from growd_hwsim.i2c import NoAcknowledgeError
from growd_hwsim.sensirion import decoded, humidity_word
from growd_hwsim.sht import ShtChip

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
