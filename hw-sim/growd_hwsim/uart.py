"""Serial ports of a simulated machine: pseudo terminals for the real pyserial.

A driver that opens /dev/serial0 gets one end of a pseudo terminal. At the other end a thread passes commands
to a chip, and its answers back, through a wire that may have faults.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import select
import termios
import threading
import tty
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from growd_drivers.serial_line import open_port
from growd_hwsim.chip import Chip
from growd_hwsim.errors import NothingRecordedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.serial_line import SerialLike

    Forward = Callable[["Query"], list[bytes]]

HISTORY_LENGTH = 1000
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


def plain_wire(query: Query, forward: Forward) -> list[bytes]:
    """A wire without faults."""
    return forward(query)


def plain_plug(port: str, _device: str) -> str | None:
    """A port that stays connected."""
    return port


class SerialPorts:
    """The serial ports of one machine: chips by the name of their port.

    `wire(query, forward)` may forward a command and change the answer: one or more pieces with a `pause()`
    between. `plug(port, device)` returns the present name of a chip's port, None while unplugged. A line
    that was opened by another name is hung up at its next command.
    """

    def __init__(
        self,
        *,
        wire: Callable[[Query, Forward], list[bytes]] = plain_wire,
        plug: Callable[[str, str], str | None] = plain_plug,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.line: type[PseudoTerminal] = PseudoTerminal
        """The connection between a port and its chip."""
        self._wire = wire
        self._plug = plug
        self._pause = pause
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
            if line is None or line.hung_up.is_set():
                slave = self._slaves[port]
                answers = partial(self._answers, port, name, slave)
                line = self._lines[port] = self.line(slave, answers, self._pause)
                line.start()
        return open_port(line.path, baud, timeout_s)

    def close(self) -> None:
        """End all lines and their threads. Closing twice does nothing."""
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
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)

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
    """A pseudo terminal, and the thread at the chip's end of it.

    This keeps the port's end open too; otherwise the chip's end would fail while no program has it open.
    """

    def __init__(
        self, slave: UartSlave, answers: Callable[[bytes], list[bytes] | None], pause: Callable[[], None]
    ) -> None:
        self._speed = slave.speed
        self._answers = answers
        self._pause = pause
        self._chip_end, self._port_end = os.openpty()
        tty.setraw(self._port_end)
        self.path = os.ttyname(self._port_end)
        self._stop, self._stopped = os.pipe()[::-1]
        self.hung_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"simulated {slave.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Hang up, and wait for the thread. Once."""
        os.close(self._stop)  # the other end of the pipe becomes readable
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._is_asked() and (pieces := self._answers(self._read())) is not None:
                self._send(pieces)
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        self.hung_up.set()  # first, since the user of the port may open it again at once
        for descriptor in (self._chip_end, self._port_end, self._stopped):
            os.close(descriptor)

    def _is_asked(self) -> bool:
        ready, _, _ = select.select([self._chip_end, self._stopped], [], [])
        return self._stopped not in ready

    def _read(self) -> bytes:
        data = os.read(self._chip_end, 256)
        is_understood = termios.tcgetattr(self._port_end)[_OUTPUT_SPEED] == self._speed
        return data if is_understood else b""  # at another speed the chip receives noise

    def _send(self, pieces: list[bytes]) -> None:
        for number, piece in enumerate(pieces):
            if number:
                self._pause()
            os.write(self._chip_end, piece)
