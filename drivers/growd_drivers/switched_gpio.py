"""Output pins on relays: RPi.GPIO's API, where a PWM is only on or off.

A relay must not be pulsed: its contacts last for some 100 000 switchings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd_drivers.gpio import GpioWrapper

if TYPE_CHECKING:
    from growd_drivers.gpio import GpioLike, PwmLike

_HALF: Final = 50.0  # percent


class SwitchedGpio(GpioWrapper):
    """The pins of `gpio`, whose PWM is a steady level: high from a duty cycle of one half."""

    def PWM(self, channel: int, frequency: float, /) -> PwmLike:  # noqa: N802  RPi.GPIO's name
        """A switch on an output pin, not yet started. The frequency has no effect."""
        del frequency
        return SwitchedPwm(self.gpio, channel)


class SwitchedPwm:
    """`RPi.GPIO.PWM` on a relay."""

    def __init__(self, gpio: GpioLike, pin: int) -> None:
        self._gpio = gpio
        self._pin = pin
        self._is_running = False

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""
        self._is_running = True
        self.ChangeDutyCycle(dutycycle)

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Set the duty cycle in percent; no effect before `start` or after `stop`."""
        if self._is_running:
            self._gpio.output(self._pin, int(dutycycle >= _HALF))

    def stop(self) -> None:
        """End; the pin keeps its level."""
        self._is_running = False
