"""What can go wrong with a device. Each error says it in a sentence fit for a user."""

from __future__ import annotations


class DriverError(Exception):
    """Base of all errors of this package. `device` names the part or the bus it concerns."""

    def __init__(self, sentence: str, *, device: str) -> None:
        super().__init__(sentence)
        self.device = device


class TransferError(DriverError, OSError):
    """A transfer failed: no acknowledge, a bad checksum, a stretched clock. Often gone at the next try.

    `errno` is the kernel's number (EBADMSG for a checksum that the driver found wrong); `address` is the
    device's address on its bus, None where the whole bus is meant.
    """

    def __init__(self, sentence: str, *, device: str, address: int | None, errno: int | None) -> None:
        super().__init__(sentence, device=device)
        self.address = address
        self.errno = errno


class DeviceMissingError(TransferError):
    """Nothing acknowledges at the address: not wired, not powered, or set to another address."""


class WrongDeviceError(DriverError, RuntimeError):
    """Another device answers: it says that it is `found`, and should be `expected` (its id registers)."""

    def __init__(self, sentence: str, *, device: str, found: int, expected: int) -> None:
        super().__init__(sentence, device=device)
        self.found = found
        self.expected = expected


class NotReadyError(DriverError, RuntimeError):
    """The device works but has no new measurement yet. Ask again later."""


class OutOfRangeError(DriverError, ValueError):
    """The device measured beyond what it can tell: `value` lies outside `minimum`..`maximum`."""

    def __init__(self, sentence: str, *, device: str, value: float, minimum: float, maximum: float) -> None:
        super().__init__(sentence, device=device)
        self.value = value
        self.minimum = minimum
        self.maximum = maximum


class StuckError(DriverError, ValueError):
    """The device has given the same `value` for `seconds`, longer than what it measures stands still."""

    def __init__(self, sentence: str, *, device: str, value: float, seconds: float) -> None:
        super().__init__(sentence, device=device)
        self.value = value
        self.seconds = seconds


class SettingError(DriverError, ValueError):
    """A driver was asked for a setting that the device does not have."""


class HardwareUnavailableError(DriverError, RuntimeError):
    """This machine lacks the hardware, or the package that reaches it."""
