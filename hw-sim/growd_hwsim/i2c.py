"""I2C adapters of a simulated kernel, under the real smbus2.

They replace `os.open`, `os.close` and `ioctl`. All code of smbus2 runs, with the ctypes structures of the
kernel's interface (Linux, include/uapi/linux/i2c-dev.h).
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import smbus2.smbus2

from growd_hwsim.chip import Chip
from growd_hwsim.errors import kernel_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Forward = Callable[["I2CMessage"], bytes]

HISTORY_LENGTH = 1000
MAXIMUM_MESSAGES = 42  # I2C_RDWR_IOCTL_MAX_MSGS in i2c-dev.h
_READ: Final = smbus2.smbus2.I2C_M_RD
CLEARING_PULSES = 9
"""On SCL, after which a slave releases SDA (NXP UM10204, section 3.1.16, "Bus clear")."""


class NoAcknowledgeError(OSError):
    """No acknowledge. i2c-bcm2835 reports EREMOTEIO."""

    def __init__(self) -> None:
        super().__init__(errno.EREMOTEIO, os.strerror(errno.EREMOTEIO))


FAULTS = ("absent", "nak", "bus_error", "timeout", "hang", "frozen", "noise", "drift", "saturated")
"""The kinds of faults that any sensor on I2C can have."""


class I2CSlave(Chip, ABC):
    """A chip on the bus. `written` has what was written to it, the newest last."""

    faults: ClassVar[tuple[str, ...]] = FAULTS

    def __init__(self) -> None:
        self.written: deque[bytes] = deque(maxlen=HISTORY_LENGTH)

    def receive(self, data: bytes) -> None:
        """Receive bytes from the master. Raises `NoAcknowledgeError` to refuse them."""
        self.written.append(data)
        if data:
            self.on_write(data)

    def step(self) -> None:
        """Do what is due by now, such as the end of an output's timer. Called before the chamber is read."""

    @abstractmethod
    def on_write(self, data: bytes) -> None:
        """Handle received bytes, at least one."""

    @abstractmethod
    def on_read(self, length: int) -> bytes:
        """The answer to a read of `length` bytes. Raises `NoAcknowledgeError` to send none."""


class I2CMessage(NamedTuple):
    """One message on the wire: `data` to write, or a read of `length` bytes if `data` is None."""

    bus: int
    address: int
    device: str
    data: bytes | None
    length: int


class I2CAdapter:
    """One bus: slaves by address, and a wire through which every message passes.

    `wire(message, forward)` may forward the message, change the answer, or raise OSError as the kernel's
    driver would. `hold(message)` is called before, for each message of a transaction, and may block the
    caller; others can use the bus. `on_pulses(bus, count)` is called for clock pulses, which `pulses` counts.
    `zero_length` is False for an adapter that refuses empty messages, as on the Pi 5 (i2c-designware,
    I2C_AQ_NO_ZERO_LEN).
    """

    def __init__(
        self,
        number: int,
        *,
        wire: Callable[[I2CMessage, Forward], bytes] = lambda message, forward: forward(message),
        hold: Callable[[I2CMessage], None] = lambda _message: None,
        on_pulses: Callable[[int, int], None] = lambda _bus, _count: None,
        zero_length: bool = True,
    ) -> None:
        self.number = number
        self.pulses = 0
        self._wire = wire
        self._hold = hold
        self._on_pulses = on_pulses
        self._zero_length = zero_length
        self._slaves: dict[int, I2CSlave] = {}
        self._lock = threading.Lock()

    def attach(self, address: int, slave: I2CSlave) -> None:
        """Connect a chip."""
        self._slaves[address] = slave

    def detach(self, address: int) -> None:
        """Disconnect a chip."""
        del self._slaves[address]

    def transfer(self, messages: ctypes.Array[Any] | Any, count: int) -> None:
        """Process `count` kernel `i2c_msg` structures as one transaction."""
        met = []
        for index in range(count):
            raw = messages[index]
            met.append((raw, self._message(raw)))
        for _, message in met:
            self._hold(message)
        with self._lock:
            for raw, message in met:
                self._carry(raw, message)

    def clock_pulses(self, count: int) -> None:
        """Pulse SCL `count` times, which clears a bus whose SDA is held low."""
        self.pulses += count
        self._on_pulses(self.number, count)

    def _carry(self, raw: Any, message: I2CMessage) -> None:
        if raw.len == 0 and not self._zero_length:
            raise kernel_error(errno.EOPNOTSUPP)
        answer = self._wire(message, self._forward)
        if message.data is None:
            # The master clocks all bytes; an undriven line reads as ones.
            ctypes.memmove(raw.buf, answer.ljust(raw.len, b"\xff"), raw.len)

    def _message(self, raw: Any) -> I2CMessage:
        address, length = raw.addr, raw.len
        data = None if raw.flags & _READ else ctypes.string_at(raw.buf, length)
        slave = self._slaves.get(address)
        return I2CMessage(self.number, address, slave.name if slave else "", data, length)

    def _forward(self, message: I2CMessage) -> bytes:
        slave = self._slaves.get(message.address)
        if slave is None:
            raise NoAcknowledgeError
        if message.data is None:
            return slave.on_read(message.length)
        slave.receive(message.data)
        return b""


class I2CKernel:
    """The kernel's i2c-dev for smbus2: `ioctl`, and the names that it uses of the module `os`."""

    O_RDWR = os.O_RDWR

    def __init__(self, adapters: Mapping[int, I2CAdapter]) -> None:
        self._devices = {f"/dev/i2c-{number}": adapter for number, adapter in adapters.items()}
        self._open: dict[int, I2CAdapter] = {}
        self._descriptors = itertools.count(1_000_000)  # beyond any real one

    def open(self, path: str, flags: int) -> int:
        """As os.open of a device node."""
        if path not in self._devices:
            raise kernel_error(errno.ENOENT, path)
        if flags != self.O_RDWR:
            raise kernel_error(errno.EINVAL)
        descriptor = next(self._descriptors)
        self._open[descriptor] = self._devices[path]
        return descriptor

    def close(self, descriptor: int) -> None:
        """As os.close."""
        if self._open.pop(descriptor, None) is None:
            raise kernel_error(errno.EBADF)

    def ioctl(self, descriptor: int, request: int, argument: Any) -> int:
        """I2C_FUNCS and I2C_RDWR. Other requests are refused, as by an adapter without them."""
        adapter = self._open.get(descriptor)
        if adapter is None:
            raise kernel_error(errno.EBADF)
        if request == smbus2.smbus2.I2C_FUNCS:
            argument.value = int(smbus2.I2cFunc.I2C)
        elif request == smbus2.smbus2.I2C_RDWR:
            if not 0 < argument.nmsgs <= MAXIMUM_MESSAGES:
                raise kernel_error(errno.EINVAL)
            adapter.transfer(argument.msgs, argument.nmsgs)
        else:
            raise kernel_error(errno.ENOTTY)
        return 0


def smbus_over(kernel: I2CKernel) -> type[smbus2.SMBus]:
    """The class `smbus2.SMBus` on this kernel.

    Its functions are those of smbus2, except that `os` and `ioctl` are the simulated kernel. The module is
    not changed.
    """
    names = {**vars(smbus2.smbus2), "os": kernel, "ioctl": kernel.ioctl}
    functions = {
        name: FunctionType(function.__code__, names, name, function.__defaults__, function.__closure__)
        for name, function in vars(smbus2.SMBus).items()
        if isinstance(function, FunctionType)
    }
    return type("SMBus", (smbus2.SMBus,), functions)
