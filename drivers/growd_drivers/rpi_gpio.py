"""The pins of a Raspberry Pi's header, over the package RPi.GPIO, whose API rpi-lgpio offers too.

Source: the documentation of RPi.GPIO 0.7.1 and of rpi-lgpio 0.6. RPi.GPIO writes the registers of the
processor, so nothing keeps two programs from driving one pin; a lock on its device does for two of growd.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd_drivers.hardware_pwm import channel_of
from growd_drivers.pin_lines import PulsedLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_drivers.pin_lines import Drive

_DEVICE: Final = "/dev/gpiomem"


class RpiGpioLines:
    """As `pin_lines.PinLines`. Raises OSError (ENODEV) without the package or the pins."""

    def __init__(self) -> None:
        try:
            from RPi import GPIO  # noqa: PLC0415  only real hardware has it
        except (ImportError, RuntimeError) as error:
            advice = 'install growd[rpi-gpio], or choose [gpio] library = "gpiod"'
            raise OSError(errno.ENODEV, f"RPi.GPIO can't be used ({error}): {advice}") from error
        self._gpio: Any = GPIO
        self._inputs: dict[int, _Debounced] = {}
        self._lock = _locked()
        with _as_os_error():
            GPIO.setwarnings(False)  # of pins that an earlier process has left driven
            GPIO.setmode(GPIO.BCM)

    def is_output(self, pin: int) -> bool:
        """As `pin_lines.PinLines`."""
        with _as_os_error():
            return bool(self._gpio.gpio_function(pin) == self._gpio.OUT)

    def claim(self, pin: int, rest: int, chip: int) -> Drive:
        """As `pin_lines.PinLines`."""
        if (channel := channel_of(pin, chip)) is not None:
            return channel
        with _as_os_error():
            self._gpio.setup(pin, self._gpio.OUT, initial=rest)
        return PulsedLine(partial(self._drive, pin), rest)

    def claim_input(self, pin: int, pull: str, debounce_ns: int) -> None:
        """As `pin_lines.PinLines`."""
        pulls = {"up": self._gpio.PUD_UP, "down": self._gpio.PUD_DOWN, "none": self._gpio.PUD_OFF}
        with _as_os_error():
            self._gpio.setup(pin, self._gpio.IN, pull_up_down=pulls[pull])
        self._inputs[pin] = _Debounced(debounce_ns)

    def read(self, pin: int) -> int:
        """As `pin_lines.PinLines`. The library has no debounce: a new level counts once it has stayed."""
        if pin not in self._inputs:
            raise OSError(errno.EPERM, "it is not set up as an input")
        with _as_os_error():
            level = int(self._gpio.input(pin))
        return self._inputs[pin].after(level, time.monotonic_ns())

    def _drive(self, pin: int, is_high: bool) -> None:  # noqa: FBT001  it is the level
        with _as_os_error():
            self._gpio.output(pin, int(is_high))


class _Debounced:
    """An input that is read from time to time."""

    def __init__(self, debounce_ns: int) -> None:
        self._debounce_ns = debounce_ns
        self._counts: int | None = None
        self._seen: int | None = None
        self._since = 0

    def after(self, level: int, now: int) -> int:
        """The level that counts, after a reading of `level`."""
        if level != self._seen:
            self._seen, self._since = level, now
        if self._counts is None or now - self._since >= self._debounce_ns:
            self._counts = level
        return self._counts


def _locked() -> int | None:
    """The open device, locked until this process ends; None for a user who may not open it."""
    with suppress(FileNotFoundError, PermissionError):
        descriptor = os.open(_DEVICE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise OSError(errno.EBUSY, "the pins are in use by growd") from None
        return descriptor
    return None


@contextmanager
def _as_os_error() -> Iterator[None]:
    """RPi.GPIO raises RuntimeError and ValueError; lgpio an error of its own, which is an Exception."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(errno.EIO, str(error) or type(error).__name__) from error
