"""Pulses on GPIO lines: a program of its own, which `software_pwm` starts with the lines as open files.

It is a process because the event loop holds Python's interpreter lock for up to 5 ms at a time, as long as a
whole period of a lamp. It imports the standard library only. Its standard input is a socket. Each message
sets one line and gets an errno as the answer. At the end of the other process it leaves each line at its
level of rest.

Source of the call that sets a line: Linux, include/uapi/linux/gpio.h (GPIO_V2_LINE_SET_VALUES_IOCTL).
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import select
import signal
import socket
import struct
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGE: Final = struct.Struct("<BBqq")
"""Pin, its level of rest, the period in ns, the time at high level in ns; the line itself is attached.

A period of 0 ends the pulses: the line stays at its level of rest, and is closed."""

ANSWER: Final = struct.Struct("<i")
"""0, or the errno of a failed write."""

_SET_VALUES: Final = 0xC010B40F
_LEVELS: Final = struct.pack("=QQ", 0, 1), struct.pack("=QQ", 1, 1)  # bits and mask of a request's only line
_NS_PER_S: Final = 1_000_000_000
_SPIN_NS: Final = 50_000  # wakes that much early, since sleeps end late, and polls the clock for the rest


class Pulses:
    """The pulses of one line, which `drive(is_high)` drives.

    Each period starts at a multiple of its length, so periods do not drift. A pulse that was too long or too
    short, because the process was woken late, is made up for by the next one.
    """

    def __init__(self, drive: Callable[[bool], object], period_ns: int, high_ns: int) -> None:
        self.due: int | None = None
        """When the level must change next, in monotonic ns; None for a steady level."""
        self._drive = drive
        self._period_ns = period_ns
        self._high_ns = high_ns
        self._is_high = False
        self._start = 0  # of the present period
        self._rose = 0
        self._length = 0  # of the present pulse, as wanted
        self._owed = 0  # time at high level

    def begin(self, now: int) -> None:
        """Drive the line as at this time of the period."""
        self._start = now - now % self._period_ns
        self._rose = self._start
        self._length = self._high_ns
        self._is_high = now - self._start < self._high_ns
        self._drive(self._is_high)
        if 0 < self._high_ns < self._period_ns:
            self.due = self._start + (self._high_ns if self._is_high else self._period_ns)

    def step(self, now: int) -> None:
        """Change the level, which is due."""
        start = now - now % self._period_ns
        if self._is_high:
            self._owe(self._length - (now - self._rose))
        if start > self._start:
            self._owe(((start - self._start) // self._period_ns - 1) * self._high_ns)  # missed periods
            self._start = start
            self._rise(now)
        else:
            self._set(False)
            self.due = start + self._period_ns

    def _rise(self, now: int) -> None:
        """Begin the pulse of this period, unless earlier ones were longer by as much."""
        self._length = self._high_ns + self._owed
        self._owed = min(self._length, 0)
        self._rose = now
        self._set(self._length > 0)
        self.due = now + self._length if self._is_high else self._start + self._period_ns

    def _owe(self, missing_ns: int) -> None:
        """Owe at most a period, so that a long interruption is not made up for."""
        self._owed = min(max(self._owed + missing_ns, -self._period_ns), self._period_ns)

    def _set(self, is_high: bool) -> None:  # noqa: FBT001
        if is_high != self._is_high:
            self._drive(is_high)
            self._is_high = is_high


class PulsedLine(NamedTuple):
    """A line with pulses: its file descriptor, its level of rest, its pulses."""

    line: int
    rest: int
    pulses: Pulses

    def end(self) -> None:
        """Leave the line at its level of rest, and close it."""
        try:
            drive(self.line, bool(self.rest))
        finally:
            os.close(self.line)


def drive(line: int, is_high: bool) -> None:  # noqa: FBT001
    """Set the level of a line. Raises OSError."""
    fcntl.ioctl(line, _SET_VALUES, _LEVELS[is_high])


class PulseGenerator:
    """All lines. `control` is the socket of the messages."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lines: dict[int, PulsedLine] = {}

    def run(self) -> None:
        """Until the other end of the socket closes."""
        waited = [self._control]
        while True:
            pulses = [each.pulses for each in self._lines.values()]
            due = min((each.due for each in pulses if each.due is not None), default=None)
            wait = None if due is None else max(0, due - time.monotonic_ns() - _SPIN_NS) / _NS_PER_S
            if select.select(waited, (), (), wait)[0]:
                if not self._obey():
                    return
            elif due is not None:
                _pulse(pulses, due)

    def close(self) -> None:
        """Leave all lines at their levels of rest."""
        while self._lines:
            with suppress(OSError):  # the others must rest too
                self._lines.popitem()[1].end()

    def _obey(self) -> bool:
        """Take one message; False at the end of them."""
        content, lines, _flags, _address = socket.recv_fds(self._control, MESSAGE.size, 1)
        if len(content) != MESSAGE.size:
            return False
        try:
            self._set(lines, *MESSAGE.unpack(content))
        except OSError as error:
            self._control.send(ANSWER.pack(error.errno or errno.EIO))
        else:
            self._control.send(ANSWER.pack(0))
        return True

    def _set(self, lines: list[int], pin: int, rest: int, period_ns: int, high_ns: int) -> None:
        was = self._lines.pop(pin, None)
        if was is not None and not period_ns:
            was.end()
        elif lines:
            if was is not None:
                os.close(was.line)
            pulses = Pulses(partial(drive, lines[0]), period_ns, high_ns)
            self._lines[pin] = PulsedLine(lines[0], rest, pulses)
            pulses.begin(time.monotonic_ns())


def _pulse(pulses: list[Pulses], due: int) -> None:
    """Change what is due first, and all that is due with it."""
    while (now := time.monotonic_ns()) < due:
        pass
    for each in pulses:
        if each.due is not None and each.due <= now:
            each.step(now)


def main() -> None:
    """Run with a socket as standard input."""
    for number in (signal.SIGINT, signal.SIGTERM):  # these are for growd, which then ends the pulses
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError), open("/proc/self/timerslack_ns", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("1")  # by default the kernel wakes a process up to 50 us late
    with suppress(OSError):  # not allowed outside of growd's service: pulses are less exact on a busy machine
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    gc.disable()
    generator = PulseGenerator(socket.socket(fileno=0))
    try:
        with suppress(OSError):  # a line that fails: growd starts this program again
            generator.run()
    finally:
        generator.close()


if __name__ == "__main__":
    main()
