"""What output pins are to the drivers: the API that RPi.GPIO 0.7 and rpi-lgpio 0.6 share."""

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
_CLAIM_S: Final = 1.0  # a claim that hangs holds up the others for no longer


class PwmLike(Protocol):
    """What is used of `RPi.GPIO.PWM`."""

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Go on with another duty cycle in percent."""

    def stop(self) -> None:
        """End; a software PWM leaves its pin low."""


class GpioLike(Protocol):
    """What is used of the module `RPi.GPIO`."""

    BCM: int
    OUT: int

    def setmode(self, mode: int, /) -> None:
        """Number pins as the processor does (BCM)."""

    def setwarnings(self, enabled: bool, /) -> None:  # noqa: FBT001  RPi.GPIO's signature
        """Warn of pins that are already in use, or not."""

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """Make a pin an output at a level, with no other level before."""

    def output(self, channel: int, value: int, /) -> None:
        """Drive a pin low (0) or high (1)."""

    def PWM(self, channel: int, frequency: float, /) -> PwmLike:  # noqa: N802  RPi.GPIO's name
        """A PWM on an output pin, not yet started."""


class GpioModule(GpioLike, Protocol):
    """The module itself, which knows pins that nobody has set up."""

    def gpio_function(self, channel: int, /) -> int:
        """What a pin is now; `OUT` for an output, also for one that an earlier process left driven."""


def claim_output(gpio: GpioLike, pin: int, level: int, *, device: str) -> None:
    """Make a pin (BCM) an output that is driven to `level` (0 or 1) from its first moment.

    Any thread may call it. Raises `HardwareUnavailableError` when the GPIO package refuses the pin.
    """
    with _one_claim_at_a_time(), refusals(device, pin):
        gpio.setwarnings(False)  # of a pin left driven by the last run, which is what we want
        gpio.setmode(gpio.BCM)
        gpio.setup(pin, gpio.OUT, initial=level)


def is_output(gpio: GpioModule, pin: int, *, device: str) -> bool:
    """Whether a pin (BCM) is an output now, whoever made it one. Raises `HardwareUnavailableError`."""
    with _one_claim_at_a_time(), refusals(device, pin):
        gpio.setmode(gpio.BCM)
        return gpio.gpio_function(pin) == gpio.OUT


@contextmanager
def _one_claim_at_a_time() -> Iterator[None]:
    """The first `setmode` of rpi-lgpio opens the GPIO chip without a lock.

    Two threads in it at a time open two handles, and pins claimed by one are busy for the other for good.
    """
    is_locked = _CLAIMING.acquire(timeout=_CLAIM_S)
    try:
        yield
    finally:
        if is_locked:
            _CLAIMING.release()


@contextmanager
def refusals(device: str, pin: int) -> Iterator[None]:
    """Raise what the GPIO package raises as `HardwareUnavailableError`, with the device and its pin."""
    try:
        yield
    except Exception as error:  # rpi-lgpio lets through lgpio.error, which has no base but Exception
        raise HardwareUnavailableError(
            f"{device}: GPIO {pin} can't be driven: {error}", device=device
        ) from error


def check_pin(pin: int, *, owner: str, device: str) -> None:
    """Raise `SettingError`, which names the pin's owner, unless the pin is on the header."""
    if not 0 <= pin <= MAXIMUM_PIN:
        raise SettingError(f"{owner}: pin must be 0..{MAXIMUM_PIN} (BCM), not {pin}", device=device)
