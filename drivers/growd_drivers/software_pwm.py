"""Software PWM: pulses on GPIO lines from a process of its own (`pwm_pulses`).

If that process dies, its lines go to their levels of rest, and it is started again. If this process dies, the
other one brings the lines to rest and ends.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from growd_drivers import pwm_pulses
from growd_drivers.pwm_pulses import ANSWER, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRAM: Final = Path(pwm_pulses.__file__)
_FIRST_ANSWER_S: Final = 10.0  # it takes as long as Python starts
_ANSWER_S: Final = 0.5  # less than the time limit of a caller, who wants the lamp dark
_PAUSE_S: Final = 1.0  # between two starts
_NS_PER_S: Final = 1_000_000_000


class _Wanted(NamedTuple):
    """The pulses of a line: its file descriptor, its level of rest, its period and its time at high level."""

    line: int
    rest: int
    period_ns: int
    high_ns: int


class PulseProcess:
    """The process, which is started once. `drive(pin, level)` drives a pin from here.

    Thread-safe. All methods raise OSError if the process or the kernel refuses.
    """

    def __init__(self, drive: Callable[[int, int], None]) -> None:
        self._drive = drive
        self._pins: dict[int, _Wanted] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Start the process, if it does not run yet, without waiting for it."""
        with self._lock:
            if self._process is None:
                self._start()
                threading.Thread(target=self._keep_running, name="pwm", daemon=True).start()

    def pulse(self, pin: int, line: int, rest: int, frequency_hz: float, high: float) -> None:
        """Pulses whose level is high for a fraction of the time, 0..1."""
        period_ns = round(_NS_PER_S / frequency_hz)
        self.start()
        with self._lock:
            wanted = _Wanted(line, rest, period_ns, round(high * period_ns))
            self._pins[pin] = wanted  # first, so that it comes to rest if this fails
            self._tell(pin, wanted)

    def end(self, pin: int) -> None:
        """End the pulses, if there are any; the pin is at its level of rest then.

        A process that fails is killed, and the pin is driven from here. Pins without pulses do not wait.
        """
        if pin not in self._pins:
            return
        with self._lock:
            was = self._pins.pop(pin, None)
            if was is None:
                return
            try:
                self._tell(pin, was._replace(period_ns=0))
            except OSError:
                self._kill()
                self._drive(pin, was.rest)

    def close(self) -> None:
        """End all pulses and the process."""
        self._closed.set()
        with self._lock:
            self._pins.clear()
            if self._control is not None:
                self._control.close()
            if self._process is not None:
                self._process.wait()

    def _start(self) -> None:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            # In a session of its own: a Ctrl-C is for growd, which ends the pulses in order.
            self._process = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-s", "-P", str(_PROGRAM)], stdin=its.fileno(), start_new_session=True
            )
        ours.settimeout(_FIRST_ANSWER_S)
        if self._control is not None:
            self._control.close()
        self._control = ours

    def _tell(self, pin: int, wanted: _Wanted) -> None:
        content = MESSAGE.pack(pin, *wanted[1:])
        if self._control is None:
            raise OSError(errno.ESRCH, "the process of the software PWM does not run")
        try:
            socket.send_fds(self._control, [content], [wanted.line])
            answer = self._control.recv(ANSWER.size)
        except OSError as error:
            self._kill()  # a late answer would be taken for the next one
            raise OSError(error.errno, f"the process of the software PWM failed: {error}") from error
        if not answer:
            self._kill()
            raise OSError(errno.ESRCH, "the process of the software PWM has ended")
        self._control.settimeout(_ANSWER_S)
        (number,) = ANSWER.unpack(answer)
        if number:
            raise OSError(number, os.strerror(number))

    def _kill(self) -> None:
        """End the process, for `_keep_running` to start it again."""
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PAUSE_S)

    def _keep_running(self) -> None:
        while self._process is not None:
            self._process.wait()
            with self._lock:
                if self._closed.is_set():
                    return
                self._start_again()
            self._closed.wait(_PAUSE_S)

    def _start_again(self) -> None:
        for pin, pulsed in self._pins.items():
            with suppress(OSError):
                self._drive(pin, pulsed.rest)
        with suppress(OSError):  # tried again in `_PAUSE_S`
            self._start()
            for pin, pulsed in self._pins.items():
                self._tell(pin, pulsed)
