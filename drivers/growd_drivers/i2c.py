"""One I2C bus for all drivers on it, with the API of CircuitPython's `busio.I2C`, over smbus2.

Everything on one bus runs in one thread. `try_lock` does not make the bus safe for several threads.
"""

from __future__ import annotations

import errno
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from smbus2 import i2c_msg

from growd_drivers.bus_speed import bus_speed_hz
from growd_drivers.errors import DeviceMissingError, HardwareUnavailableError, TransferError

if TYPE_CHECKING:
    from collections.abc import Callable

Readable = bytes | bytearray | memoryview
Writable = bytearray | memoryview


class SMBusLike(Protocol):
    """The part of `smbus2.SMBus` that is used here."""

    def i2c_rdwr(self, *i2c_msgs: i2c_msg) -> None:
        """One transaction: start, the messages with repeated starts between, stop."""

    def close(self) -> None:
        """Close the bus."""


FIRST_ADDRESS, LAST_ADDRESS = 0x08, 0x77
"""The 7-bit addresses that are not reserved (NXP UM10204, section 3.1.12)."""

_NO_ACKNOWLEDGE = {errno.EREMOTEIO, errno.ENXIO}  # of i2c-bcm2835, and of other adapters
_REASONS = {
    errno.EREMOTEIO: "does not answer",
    errno.ENXIO: "does not answer",
    errno.EIO: "broke off the transfer",
    errno.ETIMEDOUT: "held the clock for too long",
    errno.EAGAIN: "lost the bus to another master",
    errno.EBADF: "can't be reached: the bus is closed",
    errno.EOWNERDEAD: "can't be reached: another thread has taken the bus over",
}
_HUNG = {errno.ETIMEDOUT, errno.EAGAIN}
"""A chip holds a line low."""


def cannot_clear(number: int) -> None:
    """Raise OSError, for a bus whose clock can't be pulsed."""
    raise OSError(errno.ENOTSUP, f"the clock of I2C bus {number} can't be pulsed")


class I2CBus:
    """`busio.I2C` over an `smbus2.SMBus`, which is opened when needed.

    A transfer that fails because a line is held low closes the bus. The next one calls `clear(number)`, which
    sends nine clock pulses or raises OSError, and opens the bus again. `speed_hz` is as
    `bus_speed.bus_speed_hz`.
    """

    def __init__(
        self,
        open_smbus: Callable[[int], SMBusLike],
        *,
        number: int,
        clear: Callable[[int], None] = cannot_clear,
        speed_hz: Callable[[int], int | None] = bus_speed_hz,
    ) -> None:
        self.number = number
        self.recoveries = 0
        """How often the bus was cleared and opened again."""
        self._open_smbus = open_smbus
        self._clear = clear
        self._speed_hz = speed_hz
        self._smbus: SMBusLike | None = None
        self._is_hung = False
        self._is_closed = False
        self._thread: int | None = None
        self._lock = threading.Lock()
        self._labels: dict[int, str] = {}

    def label(self, address: int, device: str) -> None:
        """Name the device at an address in errors."""
        self._labels[address] = device

    def name_of(self, address: int) -> str:
        """The device as errors name it, such as "SCD30 at 0x61 on I2C bus 1"."""
        return f"{self._labels.get(address, 'the device')} at {address:#04x} on I2C bus {self.number}"

    def wrong_checksum(self, address: int) -> TransferError:
        """The error of a device whose answer has a wrong checksum. It names the speed, a frequent cause."""
        hz = self.speed_hz()
        speed = "unknown speed" if hz is None else f"{hz / 1000:g} kHz"
        sentence = f"{self.name_of(address)} sent data with a wrong checksum, at {speed}"
        device = self._labels.get(address, f"i2c-{self.number}")
        return TransferError(sentence, device=device, address=address, errno=errno.EBADMSG)

    def speed_hz(self) -> int | None:
        """Its clock frequency, None if that is not known. Blocking."""
        return self._speed_hz(self.number)

    def try_lock(self) -> bool:
        """Lock the bus if it is free, without waiting. Raises `TransferError` after a takeover."""
        if not self._is_ours():
            raise self._error(None, errno.EOWNERDEAD)
        return self._lock.acquire(blocking=False)

    def unlock(self) -> None:
        """Unlock the bus."""
        if self._is_ours():
            self._lock.release()

    def take_over(self) -> None:
        """Give the bus to this thread, since a transfer of its former thread hangs.

        The other thread's transfers raise `TransferError` from now on. The bus is cleared and opened again.
        """
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._is_hung = True
        self._drop()

    def writeto(self, address: int, buffer: Readable, *, start: int = 0, end: int | None = None) -> None:
        """Write `buffer[start:end]` and a stop. An empty buffer only asks for an acknowledge.

        On the Pi 5 (i2c-designware), which can't send an empty message, that does nothing. Raises
        `DeviceMissingError` without an acknowledge, `TransferError` for other failures.
        """
        data = bytes(memoryview(buffer)[start:end])
        try:
            self._transfer(address, i2c_msg.write(address, data))
        except TransferError as error:
            if data or error.errno != errno.EOPNOTSUPP:
                raise

    def readfrom_into(
        self, address: int, buffer: Writable, *, start: int = 0, end: int | None = None
    ) -> None:
        """Fill `buffer[start:end]` from the device. Raises as `writeto`."""
        part = memoryview(buffer)[start:end]
        message = i2c_msg.read(address, len(part))
        self._transfer(address, message)
        part[:] = bytes(message)

    def writeto_then_readfrom(
        self,
        address: int,
        out_buffer: Readable,
        in_buffer: Writable,
        *,
        out_start: int = 0,
        out_end: int | None = None,
        in_start: int = 0,
        in_end: int | None = None,
    ) -> None:
        """Write, then read after a repeated start, with no stop between. Raises as `writeto`."""
        part = memoryview(in_buffer)[in_start:in_end]
        answer = i2c_msg.read(address, len(part))
        question = i2c_msg.write(address, bytes(memoryview(out_buffer)[out_start:out_end]))
        self._transfer(address, question, answer)
        part[:] = bytes(answer)

    def scan(self) -> list[int]:
        """The addresses that acknowledge, in ascending order."""
        return [address for address in range(FIRST_ADDRESS, LAST_ADDRESS + 1) if self._acknowledges(address)]

    def close(self) -> None:
        """Close the bus: later transfers raise `TransferError`. Closing twice does nothing."""
        self._is_closed = True
        self._drop()

    def _acknowledges(self, address: int) -> bool:
        try:
            self._ask(address)
        except DeviceMissingError:
            return False
        return True

    def _ask(self, address: int) -> None:
        try:
            self._transfer(address, i2c_msg.write(address, b""))
        except TransferError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._transfer(address, i2c_msg.read(address, 1))  # the Pi 5: see writeto

    def _is_ours(self) -> bool:
        return self._thread in (None, threading.get_ident())

    def _transfer(self, address: int, *messages: i2c_msg) -> None:
        smbus = self._opened(address)
        try:
            smbus.i2c_rdwr(*messages)
        except OSError as error:
            if error.errno in _HUNG and self._is_ours():
                self._is_hung = True
                self._drop()
            raise self._error(address, error.errno) from error
        if not self._is_ours():  # the buffer belongs to another thread by now
            raise self._error(address, errno.EOWNERDEAD)

    def _opened(self, address: int) -> SMBusLike:
        if self._is_closed:
            raise self._error(address, errno.EBADF)
        if not self._is_ours():
            raise self._error(address, errno.EOWNERDEAD)
        if self._smbus is None:
            self._recover()
            try:
                smbus = self._open_smbus(self.number)
            except OSError as error:
                raise HardwareUnavailableError(
                    _why_not_opened(self.number, error), device=f"i2c-{self.number}"
                ) from error
            if not self._is_ours():  # another thread took the bus over meanwhile
                smbus.close()
                raise self._error(address, errno.EOWNERDEAD)
            self._smbus = smbus
        return self._smbus

    def _recover(self) -> None:
        if self._is_hung:
            self._is_hung = False
            self.recoveries += 1
            with suppress(OSError):  # opening the bus again may be enough
                self._clear(self.number)

    def _drop(self) -> None:
        smbus, self._smbus = self._smbus, None
        if smbus is not None:
            with suppress(OSError):  # it is given up anyway
                smbus.close()

    def _error(self, address: int | None, number: int | None) -> TransferError:
        reason = _REASONS.get(number or 0, f"failed (errno {number})")
        name = f"I2C bus {self.number}" if address is None else self.name_of(address)
        sentence = f"{name} {reason}"
        device = self._labels.get(address or 0, f"i2c-{self.number}")
        if number in _NO_ACKNOWLEDGE:
            sentence += ": check its wiring, power and address"
            return DeviceMissingError(sentence, device=device, address=address, errno=number)
        return TransferError(sentence, device=device, address=address, errno=number)


def _why_not_opened(number: int, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"I2C bus {number} is not there (no /dev/i2c-{number}): switch I2C on with `growd setup-pi`"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"I2C bus {number} can't be opened: add growd's user to the group i2c"
    return f"I2C bus {number} can't be opened: {error.strerror or error}"
