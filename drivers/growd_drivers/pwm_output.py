"""An output dimmed by pulse width on one GPIO pin: a fan, a pump, a heater on a solid-state relay."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.gpio import check_pin, claim_output, refusals

if TYPE_CHECKING:
    from growd_drivers.gpio import GpioLike, PwmLike


class PwmOutput:
    """A dimmed output on a BCM pin, on at a high pin (`active_high`) or at a low one.

    Levels are 0 (off) to 1 (full). A level above 0 becomes the duty cycle
    `minimum_duty + (1 - minimum_duty) * level`, since a motor needs some power to turn. It has its safe level
    (`safe_on`: full) from the start, after a failed write if the pin can be driven, and after `close`. The
    pin stays driven then.

    All methods raise `HardwareUnavailableError` if the kernel refuses the pin.
    """

    def __init__(
        self,
        gpio: GpioLike,
        pin: int,
        *,
        name: str,
        frequency_hz: float = 200.0,
        minimum_duty: float = 0.0,
        active_high: bool = True,
        safe_on: bool = False,
    ) -> None:
        check_pin(pin, owner=name, device=name)
        self._gpio = gpio
        self._pin = pin
        self._name = name
        self._minimum_duty = minimum_duty
        self._active_high = active_high
        self._safe = float(safe_on)
        self._level: float | None = self._safe
        self._pwm: PwmLike | None = None
        claim_output(gpio, pin, self._steady(self._safe), device=name)
        with refusals(name, pin):
            self._pwm = gpio.PWM(pin, frequency_hz)
            self._pwm.start(self._percent_high(self._safe))

    def write(self, level: float) -> None:
        """Drive it at `level`, 0..1. An unchanged level is not written again.

        Raises `SettingError` for a level outside 0..1, or if it is closed.
        """
        if self._pwm is None:
            raise SettingError(f"{self._name} is closed", device=self._name)
        if not 0.0 <= level <= 1.0:
            raise SettingError(f"{self._name}: level must be 0..1, not {level}", device=self._name)
        if level == self._level:
            return
        try:
            self._write(self._pwm, level)
        except HardwareUnavailableError:
            with suppress(HardwareUnavailableError):  # the first one is raised
                self._write(self._pwm, self._safe)
            raise

    def close(self) -> None:
        """Make it safe, and end its pulses. Closing twice does nothing, unless the first time failed."""
        if self._pwm is None:
            return
        with refusals(self._name, self._pin):
            self._pwm.ChangeDutyCycle(self._percent_high(self._safe))
            self._pwm.stop()
            self._gpio.output(self._pin, self._steady(self._safe))
        self._pwm = None

    def _write(self, pwm: PwmLike, level: float) -> None:
        self._level = None  # so that after a failure any level is written again
        with refusals(self._name, self._pin):
            pwm.ChangeDutyCycle(self._percent_high(level))
        self._level = level

    def _steady(self, level: float) -> int:
        return int((level > 0) == self._active_high)

    def _percent_high(self, level: float) -> float:
        duty = self._minimum_duty + (1.0 - self._minimum_duty) * level if level else 0.0
        return 100.0 * (duty if self._active_high else 1.0 - duty)
