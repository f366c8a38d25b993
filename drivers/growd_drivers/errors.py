"""Errors of devices. Each has a sentence for the user."""

from __future__ import annotations


class DriverError(Exception):
    """Base of all errors of this package. `device` is the part or the bus."""

    def __init__(self, sentence: str, *, device: str) -> None:
        super().__init__(sentence)
        self.device = device


class TransferError(DriverError, OSError):
    """A transfer failed: no acknowledge, a bad checksum, a stretched clock. Often the next one works.

    `errno` is the kernel's number (EBADMSG for a wrong checksum). `address` is the I2C address, None for the
    whole bus.
    """

    def __init__(self, sentence: str, *, device: str, address: int | None, errno: int | None) -> None:
        super().__init__(sentence, device=device)
        self.address = address
        self.errno = errno


class DeviceMissingError(TransferError):
    """Nothing acknowledges at the address: not wired, not powered, or set to another address."""


class WrongDeviceError(DriverError, RuntimeError):
    """Another device answers: its id register has `found` instead of `expected`."""

    def __init__(self, sentence: str, *, device: str, found: int, expected: int) -> None:
        super().__init__(sentence, device=device)
        self.found = found
        self.expected = expected


class NotReadyError(DriverError, RuntimeError):
    """The device works but has no new measurement yet."""


class OutOfRangeError(DriverError, ValueError):
    """The device measured a `value` outside its range, `minimum`..`maximum`."""

    def __init__(self, sentence: str, *, device: str, value: float, minimum: float, maximum: float) -> None:
        super().__init__(sentence, device=device)
        self.value = value
        self.minimum = minimum
        self.maximum = maximum


class StuckError(DriverError, ValueError):
    """The device has given the same `value` for `seconds`, which is longer than plausible."""

    def __init__(self, sentence: str, *, device: str, value: float, seconds: float) -> None:
        super().__init__(sentence, device=device)
        self.value = value
        self.seconds = seconds


class SettingError(DriverError, ValueError):
    """The device does not have this setting."""


class HardwareUnavailableError(DriverError, RuntimeError):
    """This machine lacks the hardware, or the package for it."""
