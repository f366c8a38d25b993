"""An output on one pin: a relay or another switch, or what is dimmed by pulse width, such as a lamp."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from growd_drivers.errors import SettingError
from growd_drivers.pins import check_pin, refusals

if TYPE_CHECKING:
    from growd_drivers.pins import Pins

_ON_FROM: Final = 0.5


class PinOutput:
    """An output on a BCM pin, on at a high pin (`active_high`) or at a low one.

    Levels are 0 (off) to 1 (full). Without a `frequency_hz` it is switched: on from a level of one half. Else
    a level above 0 becomes the duty cycle `minimum_duty + (1 - minimum_duty) * level ** gamma`: a motor needs
    some power to turn, and some LED drivers flicker below a duty cycle. With gamma 1 half the level is half
    the power; with 2.2 a lamp looks about half as bright.

    It is in its safe state (`safe_on`: full) from the start, after `close`, and when the time of a level is
    over. The pin stays driven then: many relay boards switch on at a floating pin, and an inverted lamp is
    lit by one. docs/raspberry-pi.md describes the pin after the process has ended.

    All methods raise `HardwareUnavailableError` if the pin is refused.
    """

    def __init__(
        self,
        pins: Pins,
        pin: int,
        *,
        name: str,
        frequency_hz: float | None = None,
        minimum_duty: float = 0.0,
        gamma: float = 1.0,
        active_high: bool = True,
        safe_on: bool = False,
        pwm_chip: int | None = None,
    ) -> None:
        check_pin(pin, owner=name, device=name)
        self._pins = pins
        self._pin = pin
        self._name = name
        self._frequency_hz = frequency_hz
        self._minimum_duty = minimum_duty
        self._gamma = gamma
        self._active_high = active_high
        self._safe = float(safe_on)
        self._closed = False
        with refusals(name, pin):
            pins.claim(pin, int(safe_on == active_high), pwm_chip)

    def write(self, level: float, valid_s: float) -> float | None:
        """Drive it at `level`, 0..1. Another level than the safe one holds for `valid_s` seconds.

        Returns for how long it was not in its safe state since the last write, None if that is not known.
        Raises `SettingError` for a level outside 0..1, or if it is closed.
        """
        if self._closed:
            raise SettingError(f"{self._name} is closed", device=self._name)
        if not 0.0 <= level <= 1.0:
            raise SettingError(f"{self._name}: level must be 0..1, not {level}", device=self._name)
        return self._write(level, valid_s)

    def close(self) -> None:
        """Make it safe. Closing twice does nothing, unless the first time failed."""
        if not self._closed:
            self._write(self._safe, 0.0)
            self._closed = True

    def _write(self, level: float, valid_s: float) -> float | None:
        duty = self._duty_of(level)
        high = duty if self._active_high else 1.0 - duty
        with refusals(self._name, self._pin):
            return self._pins.write(self._pin, high, self._frequency_hz or 1.0, valid_s)

    def _duty_of(self, level: float) -> float:
        if self._frequency_hz is None:
            return float(level >= _ON_FROM)
        if level == 0.0:
            return 0.0
        return self._minimum_duty + (1.0 - self._minimum_duty) * math.pow(level, self._gamma)
