"""Serial ports of a simulated machine: pseudo terminals for the real pyserial.

A driver that opens /dev/serial0 gets one end of a pseudo terminal. What it writes is passed to a chip at the
other end, and the answers back, through a wire that may have faults. Time limits take simulated time.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import termios
import threading
import time
import tty
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from growd_drivers.serial_line import open_port
from growd_hwsim.chip import Chip
from growd_hwsim.errors import NothingRecordedError, kernel_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.serial_line import SerialLike

    Forward = Callable[["Query"], list[bytes]]

HISTORY_LENGTH = 1000
ANSWERED_S = 60.0
"""Real seconds for bytes that are in the kernel already."""

_OUTPUT_SPEED = 5  # its place in what termios.tcgetattr returns


FAULTS = (
    *("absent", "short", "split", "shifted", "doubled", "garbled", "bad_checksum"),
    *("frozen", "noise", "drift", "saturated", "capped", "warm_up", "brown_out", "unplugged", "renamed"),
)
"""The kinds of faults that any sensor on a serial line can have."""


class UartSlave(Chip, ABC):
    """A chip at the end of a serial line. `received` has the commands it got, the newest last."""

    faults = FAULTS
    speed = termios.B9600

    def __init__(self) -> None:
        self.received: deque[bytes] = deque(maxlen=HISTORY_LENGTH)
        self._begun = b""

    def receive(self, data: bytes) -> list[bytes]:
        """Receive bytes from the line; returns the commands that are complete with them."""
        commands, self._begun = self.split(self._begun + data)
        self.received.extend(commands)
        return commands

    @abstractmethod
    def split(self, data: bytes) -> tuple[list[bytes], bytes]:
        """The complete commands in `data`, and the rest, which may begin the next one."""

    @abstractmethod
    def answer(self, command: bytes) -> bytes:
        """Handle a command; returns the answer, b"" for none."""


@dataclass(frozen=True)
class Query:
    """One command to the chip `device` at `port`."""

    port: str
    device: str
    command: bytes


class SerialPorts:
    """The serial ports of one machine: chips by the name of their port.

    `wire(query, forward)` may forward a command and change the answer: one or more pieces with a `pause()`
    between. `plug(port, device)` returns the present name of a chip's port, None while unplugged. A line
    that was opened by another name is hung up at its next command. `sleep` waits for a time limit.
    """

    def __init__(
        self,
        *,
        wire: Callable[[Query, Forward], list[bytes]] = lambda query, forward: forward(query),
        plug: Callable[[str, str], str | None] = lambda port, _device: port,
        pause: Callable[[], None] = lambda: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._wire = wire
        self._plug = plug
        self._pause = pause
        self._sleep = sleep
        self._slaves: dict[str, UartSlave] = {}
        self._lines: dict[str, PseudoTerminal] = {}
        self._lock = threading.Lock()

    def attach(self, port: str, slave: UartSlave) -> None:
        """Connect a chip to a port."""
        with self._lock:
            self._slaves[port] = slave

    def detach(self, port: str) -> UartSlave:
        """Disconnect the chip at a port, and hang up the port."""
        with self._lock:
            line = self._lines.pop(port, None)
            slave = self._slaves.pop(port)
        if line is not None:
            line.close()
        return slave

    def open(self, place: str, baud: int, timeout_s: float) -> SerialLike:
        """As `growd_drivers.serial_line.open_port`: `place` is a name, or a pattern with `*`."""
        with self._lock:
            port, name = self._found(place)
            line = self._lines.get(port)
            if line is None or line.is_hung_up:
                slave = self._slaves[port]
                answers = partial(self._answers, port, name, slave)
                line = self._lines[port] = PseudoTerminal(slave, answers, self._pause)
        opened = open_port(line.path, baud, ANSWERED_S)
        return _Port(opened, line, partial(self._sleep, timeout_s))

    def close(self) -> None:
        """End all lines. Closing twice does nothing."""
        with self._lock:
            lines, self._lines = self._lines, {}
        for line in lines.values():
            line.close()

    def _found(self, place: str) -> tuple[str, str]:
        """The port at a place: the name it was attached by, and its present name."""
        for port, slave in sorted(self._slaves.items()):
            name = self._plug(port, slave.name)
            if name is not None and fnmatch.fnmatchcase(name, place):
                return port, name
        raise kernel_error(errno.ENOENT, place)

    def _answers(self, port: str, opened_as: str, slave: UartSlave, data: bytes) -> list[bytes] | None:
        """The answer to `data`, in pieces; None if the port was unplugged."""
        if self._plug(port, slave.name) != opened_as:
            return None
        queries = [Query(port, slave.name, command) for command in slave.receive(data)]
        return [piece for query in queries for piece in self._wire(query, partial(_forward, slave))]


def _forward(slave: UartSlave, query: Query) -> list[bytes]:
    try:
        return [slave.answer(query.command)]
    except NothingRecordedError:
        return []


class PseudoTerminal:
    """A pseudo terminal with a chip at its other end, which answers when it is asked.

    This keeps the port's end open too; otherwise the chip's end would fail while no program has it open.
    """

    def __init__(
        self, slave: UartSlave, answers: Callable[[bytes], list[bytes] | None], pause: Callable[[], None]
    ) -> None:
        self.coming = 0
        """Bytes that the chip has sent and that are still unread."""
        self.is_hung_up = False
        self._speed = slave.speed
        self._answers = answers
        self._pause = pause
        self._chip_end, self._port_end = os.openpty()
        tty.setraw(self._port_end)
        self.path = os.ttyname(self._port_end)

    def pass_on(self, count: int) -> None:
        """Let the chip receive `count` bytes that were written, and answer."""
        while count > 0 and not self.is_hung_up:
            written = os.read(self._chip_end, 256)
            count -= len(written)
            pieces = self._answers(written if self._is_understood() else b"")
            if pieces is None:
                self.close()
            else:
                self._send(pieces)

    def close(self) -> None:
        """Hang up. Closing twice does nothing."""
        if not self.is_hung_up:
            self.is_hung_up = True
            os.close(self._chip_end)
            os.close(self._port_end)

    def _is_understood(self) -> bool:
        """Whether the port has the speed of the chip, which receives noise at another one."""
        return bool(termios.tcgetattr(self._port_end)[_OUTPUT_SPEED] == self._speed)

    def _send(self, pieces: list[bytes]) -> None:
        for number, piece in enumerate(pieces):
            if number:
                self._pause()
            if self.is_hung_up:
                return
            os.write(self._chip_end, piece)
            self.coming += len(piece)


class _Port:
    """A real serial port that is only asked for bytes that come; its time limit is `wait()`."""

    def __init__(self, port: SerialLike, line: PseudoTerminal, wait: Callable[[], None]) -> None:
        self._port = port
        self._line = line
        self._wait = wait

    def write(self, data: bytes, /) -> int | None:
        written = self._port.write(data)
        self._line.pass_on(len(data))
        return written

    def read(self, size: int = 1) -> bytes:
        if self._line.is_hung_up:
            return self._port.read(size)  # reports it
        data = self._received(size)
        if len(data) < size:
            self._wait()
            data += self._received(size - len(data))
        return data

    def reset_input_buffer(self) -> None:
        self._received(self._line.coming)
        self._port.reset_input_buffer()

    def close(self) -> None:
        self._received(self._line.coming)
        self._port.close()

    def _received(self, size: int) -> bytes:
        """At most `size` bytes of those that the chip has sent."""
        if self._line.is_hung_up or not (size := min(size, self._line.coming)):
            return b""
        self._line.coming -= size
        return self._port.read(size)
