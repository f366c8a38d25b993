"""Errors of the simulator itself; what the simulated parts report are the kernel's own errors."""

from __future__ import annotations

import errno
import os


def kernel_error(number: int, path: str | None = None) -> OSError:
    """The error of the kernel with a number of `errno`, of the subclass that Python has for it."""
    return OSError(number, os.strerror(number), *filter(None, [path]))


class SimulationError(Exception):
    """Base of all errors of this package."""


class FaultError(SimulationError, ValueError):
    """An invalid fault: unknown kind or device, a time below 0. `key` is the wrong field."""

    def __init__(self, sentence: str, *, key: str) -> None:
        super().__init__(sentence)
        self.key = key


class FaultFileError(SimulationError, ValueError):
    """A faults file that can't be used. `entry` counts from 1; None is the whole file."""

    def __init__(self, path: str, reason: str, *, entry: int | None = None, key: str | None = None) -> None:
        place = path if entry is None else f"{path}: fault {entry}"
        super().__init__(f"{place}: {reason}")
        self.path = path
        self.entry = entry
        self.key = key


class ReplayFileError(SimulationError, ValueError):
    """A recording that can't be used. `line` counts from 1; None is the whole file."""

    def __init__(self, path: str, reason: str, *, line: int | None = None) -> None:
        place = path if line is None else f"{path}: line {line}"
        super().__init__(f"{place}: {reason}")
        self.path = path
        self.line = line


class NothingRecordedError(SimulationError, OSError):
    """A gap in the recording: a sensor does not answer, as if it was switched off.

    On a bus it is the kernel's error for a missing acknowledge; on a serial line there is no answer.
    """

    def __init__(self) -> None:
        super().__init__(errno.EREMOTEIO, os.strerror(errno.EREMOTEIO))
