"""What can go wrong between the bus and a device."""

from __future__ import annotations

from typing import Final

DEVICE_ERRORS: Final = (OSError, RuntimeError, ValueError)
"""What a device's `read` or `write` may raise. Anything else is a mistake in the program and goes on up."""


class ControlError(Exception):
    """Base of all errors of this package."""


class DeviceTimeoutError(ControlError, TimeoutError):
    """A call to a device that has not come back within its time limit (`seconds`)."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__(f"{device} has not answered for {round(seconds, 1):g} s")
        self.device = device
        self.seconds = seconds


class DeviceStuckError(DeviceTimeoutError):
    """A call to a device or to its neighbour on the bus that hangs so long that its thread was given up."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__(device, seconds)
        self.args = (f"{self}: its bus is taken from the call that hangs",)


class NoReadingError(ControlError, RuntimeError):
    """A device that answers, but has had no reading to give for too long (`seconds`)."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__(f"{device} has had no new reading for {seconds:g} s")
        self.device = device
        self.seconds = seconds
