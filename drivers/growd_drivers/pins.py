"""Pins (BCM) of the header, which the pin keeper drives (`pin_keeper`). Blocking; for worker threads."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from growd_drivers import pin_keeper
from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.pin_keeper import ANSWER, MOST_BYTES, PULLS, REQUEST
from growd_drivers.pin_lines import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Pull: TypeAlias = Literal["up", "down", "none"]
Library: TypeAlias = Literal["gpiod", "RPi.GPIO"]

MAXIMUM_PIN: Final = 27
"""BCM 0..27 are on the 40 pin header."""

MAXIMUM_SOFTWARE_PWM_HZ: Final = 1000.0
"""Above, software PWM takes much of a processor core."""

_FIRST_ANSWER_S: Final = 10.0  # the keeper takes as long as Python starts
_ANSWER_S: Final = 0.4  # so that a hanging keeper is replaced within a second
_PAUSE_S: Final = 1.0  # between two starts
_END_S: Final = 1.0  # until an ended keeper is gone
_PERMISSION_S: Final = 1.0  # until udev has given the files of a new PWM channel to the group gpio
_POLL_S: Final = 0.05
_STOP_IT: Final = ": stop that program, or remove the line in config.txt that uses the pin"


_OPENING: Final = threading.Lock()
_opened: list[KeptPins] = []


class Pins(ABC):
    """The pins of one machine, real or simulated. Thread-safe. All methods raise OSError.

    `on_claim(pin)` is called after the first claim of an output, before it can be driven elsewhere.
    """

    def __init__(self) -> None:
        self.claimed: dict[int, tuple[int, int]] = {}
        """The level of rest and the PWM chip (-1: none) of each claimed output."""
        self.on_claim: Callable[[int], None] = lambda _pin: None
        self._spent: dict[int, int] = {}
        self._lock = threading.RLock()

    def open(self) -> None:
        """Open the library of the pins. Raises `HardwareUnavailableError` if they can't be used."""
        try:
            self._request(pin_keeper.OPEN)
        except OSError as error:
            raise HardwareUnavailableError(error.strerror or str(error), device="gpio") from error

    def claim(
        self, pin: int, rest: int, pwm_chip: int | None = None, *, only_if_driven: bool = False
    ) -> bool:
        """Make a pin an output at its level of rest; with `only_if_driven` if it is an output now.

        A PWM chip drives it if there is one that can. Returns whether it is an output.
        """
        chip = -1 if pwm_chip is None else pwm_chip
        operation = pin_keeper.CLAIM_DRIVEN if only_if_driven else pin_keeper.CLAIM
        end = time.monotonic() + _PERMISSION_S
        while True:
            try:
                return self._claim(operation, pin, rest, chip)
            except PermissionError:
                if chip < 0 or time.monotonic() > end:
                    raise
                time.sleep(_POLL_S)

    def write(self, pin: int, high: float, frequency_hz: float, valid_s: float) -> float | None:
        """Drive an output high for a fraction of the time, 0..1, with pulses of this frequency.

        Another level than that of rest holds for `valid_s` seconds. Returns for how long the output was not
        at rest since the last write, None if that is not known.
        """
        period_ns = round(NS_PER_S / frequency_hz)
        high_ns = round(high * period_ns)
        if high_ns in {0, period_ns}:
            period_ns, high_ns = 0, int(high_ns > 0)  # a steady level
        valid_ns = round(valid_s * NS_PER_S)
        with self._lock:
            spent = self._request(pin_keeper.WRITE, pin, first=period_ns, second=high_ns, valid_ns=valid_ns)
            before = self._spent.get(pin)
            self._spent[pin] = spent
        return None if before is None else (spent - before) / NS_PER_S

    def claim_input(self, pin: int, *, pull: Pull, debounce_s: float) -> None:
        """Make a pin an input, whose level changes after `debounce_s` seconds at a new one."""
        debounce_ns = round(debounce_s * NS_PER_S)
        with self._lock:
            self._request(pin_keeper.CLAIM_INPUT, pin, PULLS.index(pull), first=debounce_ns)
            self.claimed.pop(pin, None)

    def input(self, pin: int) -> int:
        """The level of an input, 0 or 1."""
        return self._request(pin_keeper.READ, pin)

    def ping(self) -> None:
        """Find out whether the keeper answers."""
        self._request(pin_keeper.PING)

    def _claim(self, operation: int, pin: int, rest: int, chip: int) -> bool:
        with self._lock:
            is_output = bool(self._request(operation, pin, rest, chip))
            if is_output and pin not in self.claimed:
                self.on_claim(pin)
            if is_output:
                self.claimed[pin] = rest, chip
                self._spent.pop(pin, None)
            return is_output

    def _request(
        self,
        operation: int,
        pin: int = 0,
        level: int = 0,
        chip: int = -1,
        *,
        first: int = 0,
        second: int = 0,
        valid_ns: int = 0,
    ) -> int:
        answer = self._ask(pin, REQUEST.pack(operation, pin, level, chip, first, second, valid_ns))
        number, value = ANSWER.unpack_from(answer)
        if number:
            raise OSError(number, answer[ANSWER.size :].decode(errors="replace"))
        return int(value)

    @abstractmethod
    def _ask(self, pin: int, request: bytes) -> bytes:
        """The keeper's answer. Raises OSError without one."""


class KeptPins(Pins):
    """The pins of this machine. Starts the keeper, and a new one when it dies or hangs.

    A new keeper brings all claimed outputs to rest. `restarts` counts them, `trouble` says why the last one
    was needed.
    """

    def __init__(self, library: Library = "gpiod") -> None:
        super().__init__()
        self.library = library
        self.restarts = 0
        self.trouble = ""
        self._lost: set[int] = set()  # outputs that a new keeper could not claim yet
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._started = 0.0
        with suppress(OSError):  # tried again with the first request
            self._start()

    @property
    def process(self) -> int | None:
        """The number of the process of the keeper, None if it does not run."""
        return None if self._process is None else self._process.pid

    @property
    def is_whole(self) -> bool:
        """Whether the present keeper runs, and has all outputs that were ever claimed."""
        return self._process is not None and not self._lost

    def close(self) -> None:
        """End the keeper, which leaves all outputs at rest and driven."""
        with self._lock:
            self._end()

    def _ask(self, pin: int, request: bytes) -> bytes:
        del pin
        with self._lock:
            try:
                self._claim_lost()
                return self._answer(request)
            except OSError as error:
                self._replace(str(error) or type(error).__name__)
                raise OSError(errno.ESRCH, f"the pin keeper failed: {self.trouble}") from error

    def _answer(self, request: bytes) -> bytes:
        if self._control is None:
            raise OSError(errno.ESRCH, "it does not run")
        self._control.send(request)
        answer = self._control.recv(MOST_BYTES)
        if len(answer) < ANSWER.size:
            raise OSError(errno.ESRCH, "it has ended")
        self._control.settimeout(_ANSWER_S)
        return answer

    def _start(self) -> None:
        self._started = time.monotonic()
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_FIRST_ANSWER_S)
        self._control = ours
        # The program of an installed growd adds its packages to the path of Python by itself.
        packages = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with its:
            # In a session of its own: a Ctrl-C is for growd, which ends the keeper in order.
            self._process = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-s", "-P", "-m", pin_keeper.__name__, self.library],
                stdin=its.fileno(),
                env=os.environ | packages,
                start_new_session=True,
            )

    def _replace(self, trouble: str) -> None:
        """Kill the keeper, start a new one, and let it bring all outputs to rest."""
        if self._process is not None:
            self.restarts += 1
            self.trouble = trouble
        self._end(kill=True)
        self._spent.clear()  # a new keeper counts from 0
        self._lost = set(self.claimed)
        if time.monotonic() - self._started < _PAUSE_S:
            return  # tried again with the next request
        try:
            self._start()
            self._claim_lost()
        except OSError as error:
            self.trouble = str(error)
            self._end(kill=True)

    def _claim_lost(self) -> None:
        """Bring the outputs to rest that a new keeper has not claimed yet. What is refused stays lost."""
        for pin in self._lost & self.claimed.keys():
            rest, chip = self.claimed[pin]
            answer = self._answer(REQUEST.pack(pin_keeper.CLAIM, pin, rest, chip, 0, 0, 0))
            if not ANSWER.unpack_from(answer)[0]:
                self._lost.discard(pin)

    def _end(self, *, kill: bool = False) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            if kill:
                self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        self._control = self._process = None


def kept_pins(library: Library) -> KeptPins:
    """The pins of this machine, whose keeper is started once for the process."""
    with _OPENING:
        if _opened and _opened[0].library != library:
            _opened.pop().close()
        if not _opened:
            _opened.append(KeptPins(library))
        return _opened[0]


def release_pins() -> None:
    """End the keeper, if there is one: its outputs rest, and stay driven."""
    with _OPENING:
        while _opened:
            _opened.pop().close()


@contextmanager
def refusals(device: str, pin: int, done: str = "driven") -> Iterator[None]:
    """Translate OSError to `HardwareUnavailableError`, with the device, its pin and what can't be done."""
    try:
        yield
    except OSError as error:
        advice = _STOP_IT if error.errno == errno.EBUSY else ""
        sentence = f"{device}: GPIO {pin} can't be {done}: {error.strerror or error}{advice}"
        raise HardwareUnavailableError(sentence, device=device) from error


def check_pin(pin: int, *, owner: str, device: str) -> None:
    """Raise `SettingError` with the owner of the pin unless the pin is on the header."""
    if not 0 <= pin <= MAXIMUM_PIN:
        raise SettingError(f"{owner}: pin must be 0..{MAXIMUM_PIN} (BCM), not {pin}", device=device)
