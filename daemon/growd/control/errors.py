"""Errors between the bus and a device."""

from __future__ import annotations

from typing import Final

DEVICE_ERRORS: Final = (OSError, RuntimeError, ValueError)
"""The errors that a device's `read` or `write` may raise. Any other error is a bug and propagates."""


class ControlError(Exception):
    """Base of all errors of this package."""


class DeviceTimeoutError(ControlError, TimeoutError):
    """A call to a device did not return within its time limit (`seconds`)."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__(f"{device} has not answered for {round(seconds, 1):g} s")
        self.device = device
        self.seconds = seconds


class DeviceStuckError(DeviceTimeoutError):
    """A call on the bus hung for so long that its thread was abandoned."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__(device, seconds)
        self.args = (f"{self}: the call hung, and its bus was opened again",)


class NoReadingError(ControlError, RuntimeError):
    """A device answers, but has had no reading for too long (`seconds`)."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__(f"{device} has had no new reading for {seconds:.0f} s")
        self.device = device
        self.seconds = seconds
