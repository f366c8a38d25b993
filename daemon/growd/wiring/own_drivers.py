"""Drivers of other packages: whatever they do is a failure of their device, and of nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from growd_drivers.errors import DriverError, HardwareUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_MOST_HUNG: Final = 2
"""How many calls of a driver may hang for good. Each takes a thread of its bus, which has few."""


class OwnDriverError(DriverError, RuntimeError):
    """A driver of another package raised an error that is not a `DriverError`, or returned no numbers."""


class PlainGuard:
    """For growd's own drivers: an error that is not of the device is a bug, and ends the component."""

    def call(self, function: Callable[[], T]) -> T:
        return function()


class OwnDriverGuard(PlainGuard):
    """For a driver of another package: any error is one of its device, and a value is a number.

    Even SystemExit is, which would end growd. A driver whose calls hang for good is not called any more.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._begun = 0
        self._ended = 0

    def call(self, function: Callable[[], T]) -> T:
        hung = self._begun - self._ended
        if hung >= _MOST_HUNG:
            sentence = f"the driver of {self._device} has hung {hung} times; correct it, and restart growd"
            raise HardwareUnavailableError(sentence, device=self._device)
        self._begun += 1
        try:
            return function()
        except DriverError:
            raise
        except BaseException as error:
            kind, words = type(error).__name__, str(error)
            sentence = f"the driver of {self._device} failed: {kind}{f': {words}' if words else ''}"
            raise OwnDriverError(sentence, device=self._device) from error
        finally:
            self._ended += 1


def numbers(reading: dict[str, Any]) -> dict[str, float]:
    """The reading with floats. Raises TypeError or ValueError for a value that is no number."""
    for name, value in reading.items():
        if isinstance(value, bool | str | bytes) or value is None:
            raise TypeError(f"{name} must be a number, got {value!r:.60}")
    return {name: float(value) for name, value in reading.items()}
