"""The pin keeper: the only process that drives pins. `growd_drivers.pins` starts it.

Each level other than the level of rest is valid for a time. When it is over, or when the process that has
started the keeper ends or closes its socket, the pin rests. So no output stays on while growd hangs. The
keeper imports the standard library and the library of the pins only. Its standard input is a socket, on which
each request gets an answer.
"""

from __future__ import annotations

import errno
import gc
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from growd_drivers.pin_lines import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.pin_lines import Drive, PinLines

PING: Final = 0
"""Answers."""
OPEN: Final = 1
"""Opens the library of the pins."""
CLAIM: Final = 2
"""Makes a pin an output at its level of rest."""
CLAIM_DRIVEN: Final = 3
"""As `CLAIM`, if the pin is an output now, in any process, or of a PWM chip. The value is 1 if it is."""
WRITE: Final = 4
"""Drives a claimed output for a time. The value is the time for which it was not at rest so far, in ns."""
CLAIM_INPUT: Final = 5
"""Makes a pin an input."""
READ: Final = 6
"""The value is the level of an input, 0 or 1."""

REQUEST: Final = struct.Struct("<BBBbqqq")
"""Operation, pin (BCM), level of rest or pull (of `PULLS`), PWM chip or -1, and three times in ns: the period
of the pulses (0: a steady level), the high time (for a steady level 0 or 1), and how long it is valid. For an
input the first one is the debounce period."""

ANSWER: Final = struct.Struct("<iq")
"""0 or an errno, and the value. The text of the error follows."""

PULLS: Final = ("none", "up", "down")
"""The resistors of an input."""

MOST_BYTES: Final = 512
_MOST_VALID_NS: Final = 3_600 * NS_PER_S
_RETRY_NS: Final = 50_000_000  # after a failed write to the level of rest
_MOST_RETRIES: Final = 100  # at the end
_SPIN_NS: Final = 50_000  # wakes that much early, since sleeps end late, and polls the clock for the rest
_MCL_CURRENT_AND_FUTURE: Final = 3  # mlockall(2)


class _Output:
    """A claimed output: what drives it, its level of rest, and until when it may be at another one."""

    def __init__(self, drive: Drive, rest: int, chip: int) -> None:
        self.drive = drive
        self.rest = rest
        self.chip = chip
        self.ends: int | None = None
        self._present: tuple[int, int] | None = (0, rest)
        self._left = 0  # when it left its level of rest
        self._spent = 0  # how long it was elsewhere before that

    @property
    def due(self) -> int | None:
        if self.ends is None or self.drive.due is None:
            return self.drive.due if self.ends is None else self.ends
        return min(self.ends, self.drive.due)

    def write(self, wanted: tuple[int, int], valid_ns: int, now: int) -> int:
        """Drive it with a period and a high time. Another level than that of rest holds for `valid_ns`.

        Returns the time for which it was not at rest so far.
        """
        if wanted == (0, self.rest):
            self.come_to_rest(now)
            return self._spent
        if wanted != self._present:
            self._present = None  # unknown after a failure, so the next write drives it again
            if self.ends is None:
                self._left, self.ends = now, now  # rests soon if this write fails
            self.drive.set(*wanted, now)
            self._present = wanted
        self.ends = now + valid_ns
        return self._spent + now - self._left

    def step(self, now: int) -> None:
        """Take the step that is due: the next edge, or the end of its time."""
        if self.ends is not None and self.ends <= now:
            self.come_to_rest(now)
        elif self.drive.due is not None and self.drive.due <= now:
            try:
                self.drive.step(now)
            except OSError:
                self._present = None  # the next write drives it again, and reports the error
                raise

    def come_to_rest(self, now: int, *, again: bool = False) -> None:
        """Drive it to its level of rest; if it is there only `again`. A failure is tried again soon."""
        wanted = (0, self.rest)
        if again or wanted != self._present:
            self._present = None
            self._left = now if self.ends is None else self._left
            self.ends = now + _RETRY_NS
            self.drive.set(*wanted, now)
            self._present = wanted
        if self.ends is not None:
            self._spent += now - self._left
            self.ends = None


class Keeper:
    """The outputs and inputs. `open_lines` opens the library of the pins at its first use.

    It has no clock: `now` is in monotonic ns.
    """

    def __init__(self, open_lines: Callable[[], PinLines]) -> None:
        self._open_lines = open_lines
        self._lines: PinLines | None = None
        self._outputs: dict[int, _Output] = {}

    @property
    def due(self) -> int | None:
        """When `step` must be called next, None for not at all."""
        return min((each.due for each in self._outputs.values() if each.due is not None), default=None)

    def step(self, now: int) -> None:
        """Do all that is due. A pin that fails is tried again, and stops no other one."""
        for output in self._outputs.values():
            if output.due is not None and output.due <= now:
                with suppress(OSError):
                    output.step(now)

    def answer(self, request: bytes, now: int) -> bytes:
        """Carry out a request, and return its answer."""
        try:
            return ANSWER.pack(0, self._carried_out(request, now))
        except OSError as error:
            words = (error.strerror or str(error)).encode()[: MOST_BYTES - ANSWER.size]
            return ANSWER.pack(error.errno or errno.EIO, 0) + words

    def rest(self, now: int) -> bool:
        """Let all outputs rest. Returns whether they do."""
        for output in self._outputs.values():
            if output.ends is not None:
                with suppress(OSError):
                    output.come_to_rest(now)
        return all(output.ends is None for output in self._outputs.values())

    def _carried_out(self, request: bytes, now: int) -> int:
        operation, pin, level, chip, first, second, valid_ns = REQUEST.unpack(request)
        if operation == WRITE:
            return self._write(pin, (first, second), valid_ns, now)
        if operation == PING:
            return 0
        lines = self._lines = self._lines or self._open_lines()
        if operation == READ:
            return lines.read(pin)
        if operation == CLAIM_INPUT:
            lines.claim_input(pin, PULLS[level], first)
            self._outputs.pop(pin, None)
        elif operation == CLAIM or (operation == CLAIM_DRIVEN and (chip >= 0 or lines.is_output(pin))):
            self._claim(lines, pin, level, chip, now)
            return 1
        return 0

    def _claim(self, lines: PinLines, pin: int, rest: int, chip: int, now: int) -> None:
        output = self._outputs.get(pin)
        if output is None or (output.rest, output.chip) != (rest, chip):
            output = self._outputs[pin] = _Output(lines.claim(pin, rest, chip), rest, chip)
        output.come_to_rest(now, again=True)  # another program may have driven it

    def _write(self, pin: int, wanted: tuple[int, int], valid_ns: int, now: int) -> int:
        output, (period_ns, high_ns) = self._outputs.get(pin), wanted
        if output is None:
            raise OSError(errno.EPERM, "it is not set up as an output")
        if not 0 <= valid_ns <= _MOST_VALID_NS or not 0 <= high_ns <= max(1, period_ns):
            raise OSError(errno.EINVAL, "its time or its level is out of range")
        return output.write(wanted, valid_ns, now)


def open_lines(library: str) -> PinLines:
    """The pins of this machine by the package "gpiod" or "RPi.GPIO". Raises OSError (ENODEV) without them."""
    if library == "RPi.GPIO":
        from growd_drivers.rpi_gpio import RpiGpioLines  # noqa: PLC0415  the keeper imports one of them

        return RpiGpioLines()
    from growd_drivers.gpio_lines import GpiodLines, header_chip  # noqa: PLC0415  likewise

    return GpiodLines(header_chip())


def serve(keeper: Keeper, control: socket.socket) -> None:
    """Answer requests until the other end closes. Raises OSError."""
    waited = [control]
    while True:
        due = keeper.due
        wait = None if due is None else max(0, due - time.monotonic_ns() - _SPIN_NS) / NS_PER_S
        if select.select(waited, (), (), wait)[0]:
            request = control.recv(MOST_BYTES)
            if len(request) != REQUEST.size:
                return
            control.send(keeper.answer(request, time.monotonic_ns()))
            keeper.step(time.monotonic_ns())  # requests that come without a pause delay nothing
        elif due is not None:
            while (now := time.monotonic_ns()) < due:
                pass
            keeper.step(now)


def main() -> None:
    """Run with a socket as standard input, and the name of the library as argument."""
    # These are for growd, which then ends. systemd sends them to all processes of a service.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGABRT):
        signal.signal(number, signal.SIG_IGN)
    _be_punctual()
    control = socket.socket(fileno=0)
    keeper = Keeper(lambda: open_lines(sys.argv[1]))
    try:
        with suppress(OSError):  # the other end is gone
            serve(keeper, control)
    finally:
        control.close()
        for _ in range(_MOST_RETRIES):  # then the next keeper may have the pins
            if keeper.rest(time.monotonic_ns()):
                break
            time.sleep(_RETRY_NS / NS_PER_S)


def _be_punctual() -> None:
    """Take real-time priority and locked memory, where the system allows it; else edges may be late."""
    with suppress(OSError), open("/proc/self/timerslack_ns", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("1")  # by default the kernel wakes a process up to 50 us late
    with suppress(OSError):  # growd's service allows it (LimitRTPRIO)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY:  # likewise (LimitMEMLOCK)
        with suppress(ImportError, OSError, AttributeError):
            import ctypes  # noqa: PLC0415  only for this

            ctypes.CDLL(None).mlockall(_MCL_CURRENT_AND_FUTURE)
    gc.disable()


if __name__ == "__main__":
    main()
