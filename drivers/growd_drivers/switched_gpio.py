"""Output pins on relays: RPi.GPIO's API, in which a PWM is no more than on and off.

A relay must not be pulsed: its contacts last for some 100 000 switchings. So nothing here starts a PWM of the
GPIO package, whose end would make a pin low for a moment as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from growd_drivers.gpio import GpioLike, PwmLike

_HALF: Final = 50.0  # percent


class SwitchedGpio:
    """The pins of `gpio`, whose PWM is a steady level: high from a duty cycle of one half on."""

    def __init__(self, gpio: GpioLike) -> None:
        self.BCM = gpio.BCM
        self.OUT = gpio.OUT
        self._gpio = gpio

    def setmode(self, mode: int, /) -> None:
        """Number the pins as the processor does (BCM)."""
        self._gpio.setmode(mode)

    def setwarnings(self, enabled: bool, /) -> None:  # noqa: FBT001  RPi.GPIO's signature
        """Warn of pins that are already in use, or not."""
        self._gpio.setwarnings(enabled)

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """Make a pin an output at a level."""
        self._gpio.setup(channel, direction, initial=initial)

    def output(self, channel: int, value: int, /) -> None:
        """Drive a pin low (0) or high (1)."""
        self._gpio.output(channel, value)

    def PWM(self, channel: int, frequency: float, /) -> PwmLike:  # noqa: N802  RPi.GPIO's name
        """A switch on an output pin, not yet started; the frequency is of no use."""
        del frequency
        return SwitchedPwm(self._gpio, channel)


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
        """Go on with another duty cycle in percent; does nothing before `start`, and after `stop`."""
        if self._is_running:
            self._gpio.output(self._pin, int(dutycycle >= _HALF))

    def stop(self) -> None:
        """End; the pin stays as it is."""
        self._is_running = False
