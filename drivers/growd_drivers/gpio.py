"""Pins: the part of RPi.GPIO's API that `gpio_lines` offers for outputs, and inputs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from growd_drivers.errors import HardwareUnavailableError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

Pull: TypeAlias = Literal["up", "down", "none"]

MAXIMUM_PIN = 27
"""BCM 0..27 are on the 40 pin header."""

MAXIMUM_SOFTWARE_PWM_HZ = 1000.0
"""Above, software PWM takes much of a processor core."""


class PwmLike(Protocol):
    """Pulses on one pin."""

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Set the duty cycle in percent."""

    def stop(self) -> None:
        """End."""


class GpioLike(Protocol):
    """The pins (BCM) of a machine."""

    OUT: int

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """Make a pin an output at a level, without another level before."""

    def output(self, channel: int, value: int, /) -> None:
        """Drive a pin low (0) or high (1)."""

    def PWM(self, channel: int, frequency: float, /) -> PwmLike:  # noqa: N802  RPi.GPIO's name
        """A PWM on an output pin, not yet started."""


class InputPins(Protocol):
    """The pins (BCM) of a machine, as inputs."""

    def claim_input(self, channel: int, *, pull: Pull, debounce_s: float) -> None:
        """Make a pin an input, whose level changes after `debounce_s` seconds at a new one."""

    def input(self, channel: int, /) -> int:
        """The level of an input, 0 or 1."""


class Pins(GpioLike, InputPins, Protocol):
    """The pins of a machine, as outputs and inputs."""


class GpioModule(Pins, Protocol):
    """The pins of this machine, also those that are not set up."""

    def gpio_function(self, channel: int, /) -> int:
        """The present function of a pin; `OUT` also for a pin that an earlier process left driven."""


class GpioWrapper:
    """The pins of `gpio`, for subclasses that change what some of its methods do."""

    def __init__(self, gpio: GpioLike) -> None:
        self.OUT = gpio.OUT
        self.gpio = gpio

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """As `GpioLike`."""
        self.gpio.setup(channel, direction, initial=initial)

    def output(self, channel: int, value: int, /) -> None:
        """As `GpioLike`."""
        self.gpio.output(channel, value)

    def PWM(self, channel: int, frequency: float, /) -> PwmLike:  # noqa: N802  RPi.GPIO's name
        """As `GpioLike`."""
        return self.gpio.PWM(channel, frequency)


def claim_output(gpio: GpioLike, pin: int, level: int, *, device: str) -> None:
    """Make a pin (BCM) an output at `level` (0 or 1). Raises `HardwareUnavailableError` if it is refused."""
    with refusals(device, pin):
        gpio.setup(pin, gpio.OUT, initial=level)


def is_output(gpio: GpioModule, pin: int, *, device: str) -> bool:
    """Whether a pin (BCM) is an output now, in any process. Raises `HardwareUnavailableError`."""
    with refusals(device, pin):
        return gpio.gpio_function(pin) == gpio.OUT


@contextmanager
def refusals(device: str, pin: int, done: str = "driven") -> Iterator[None]:
    """Translate OSError to `HardwareUnavailableError`, with the device, its pin and what can't be done."""
    try:
        yield
    except OSError as error:
        sentence = f"{device}: GPIO {pin} can't be {done}: {error.strerror or error}"
        raise HardwareUnavailableError(sentence, device=device) from error


def check_pin(pin: int, *, owner: str, device: str) -> None:
    """Raise `SettingError` with the owner of the pin unless the pin is on the header."""
    if not 0 <= pin <= MAXIMUM_PIN:
        raise SettingError(f"{owner}: pin must be 0..{MAXIMUM_PIN} (BCM), not {pin}", device=device)
