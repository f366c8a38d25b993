"""Output pins: the API that RPi.GPIO 0.7 and rpi-lgpio 0.6 share."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from growd_drivers.errors import HardwareUnavailableError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAXIMUM_PIN = 27
"""BCM 0..27 are on the 40 pin header."""

_CLAIMING: Final = threading.Lock()
_CLAIM_S: Final = 1.0  # the longest wait for another claim, which may hang


class PwmLike(Protocol):
    """What is used of `RPi.GPIO.PWM`."""

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Set the duty cycle in percent."""

    def stop(self) -> None:
        """End; a software PWM leaves its pin low."""


class GpioLike(Protocol):
    """What is used of the module `RPi.GPIO`."""

    BCM: int
    OUT: int

    def setmode(self, mode: int, /) -> None:
        """Number pins as the processor does (BCM)."""

    def setwarnings(self, enabled: bool, /) -> None:  # noqa: FBT001  RPi.GPIO's signature
        """Switch warnings about pins in use on or off."""

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """Make a pin an output at a level, without another level before."""

    def output(self, channel: int, value: int, /) -> None:
        """Drive a pin low (0) or high (1)."""

    def PWM(self, channel: int, frequency: float, /) -> PwmLike:  # noqa: N802  RPi.GPIO's name
        """A PWM on an output pin, not yet started."""


class GpioModule(GpioLike, Protocol):
    """The module itself, which also knows pins that are not set up."""

    def gpio_function(self, channel: int, /) -> int:
        """The present function of a pin; `OUT` also for a pin that an earlier process left driven."""


class GpioWrapper:
    """The pins of `gpio`, for subclasses that change what some of its methods do."""

    def __init__(self, gpio: GpioLike) -> None:
        self.BCM = gpio.BCM
        self.OUT = gpio.OUT
        self.gpio = gpio

    def setmode(self, mode: int, /) -> None:
        """As `GpioLike`."""
        self.gpio.setmode(mode)

    def setwarnings(self, enabled: bool, /) -> None:  # noqa: FBT001  RPi.GPIO's signature
        """As `GpioLike`."""
        self.gpio.setwarnings(enabled)

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
    """Make a pin (BCM) an output at `level` (0 or 1). Thread-safe.

    Raises `HardwareUnavailableError` if the GPIO package refuses the pin.
    """
    with _one_claim_at_a_time(), refusals(device, pin):
        gpio.setwarnings(False)  # about a pin that the last run left driven, which is wanted
        gpio.setmode(gpio.BCM)
        gpio.setup(pin, gpio.OUT, initial=level)


def is_output(gpio: GpioModule, pin: int, *, device: str) -> bool:
    """Whether a pin (BCM) is an output now, in any process. Raises `HardwareUnavailableError`."""
    with _one_claim_at_a_time(), refusals(device, pin):
        gpio.setmode(gpio.BCM)
        return gpio.gpio_function(pin) == gpio.OUT


@contextmanager
def _one_claim_at_a_time() -> Iterator[None]:
    """A lock, since the first `setmode` of rpi-lgpio opens the GPIO chip without one.

    Two threads at the same time open two handles. Pins claimed by one stay busy for the other.
    """
    is_locked = _CLAIMING.acquire(timeout=_CLAIM_S)
    try:
        yield
    finally:
        if is_locked:
            _CLAIMING.release()


@contextmanager
def refusals(device: str, pin: int) -> Iterator[None]:
    """Translate errors of the GPIO package to `HardwareUnavailableError`, with the device and its pin."""
    try:
        yield
    except Exception as error:  # rpi-lgpio raises lgpio.error, whose base is Exception
        raise HardwareUnavailableError(
            f"{device}: GPIO {pin} can't be driven: {error}", device=device
        ) from error


def check_pin(pin: int, *, owner: str, device: str) -> None:
    """Raise `SettingError` with the owner of the pin unless the pin is on the header."""
    if not 0 <= pin <= MAXIMUM_PIN:
        raise SettingError(f"{owner}: pin must be 0..{MAXIMUM_PIN} (BCM), not {pin}", device=device)
