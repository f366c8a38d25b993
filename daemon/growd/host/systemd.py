"""What systemd is told of the service, and when it is not told that all is well (sd_notify(3)).

A datagram of lines `NAME=value` to the UNIX socket that NOTIFY_SOCKET names. Nothing here waits: a datagram
that the socket has no room for is lost, and the next one says the same or newer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, MutableMapping

    from growd.runtime.liveness import Heartbeat, Liveness

WORDS_S: Final = 5.0  # between two looks, of which each may change what is told
START_S: Final = 60.0  # by which each look puts off the end of the start
LONGEST_START_S: Final = 900.0  # after which the manager's own limit holds: a damaged file of 256 MB is read
FIRST_PASSED: Final = 3  # file number of the first socket that the manager passes (sd_listen_fds(3))
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_UNKNOWN: Final = "running"
_MICRO: Final = 1_000_000
_log = logging.getLogger(__name__)


class ServiceManager:
    """systemd, or nobody where growd was started otherwise: then all of it does nothing.

    `watchdog_s` is how long the manager waits for a sign of life, None where it waits for none.
    """

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self.watchdog_s = watchdog_s if address else None
        self.words: Callable[[], str] = lambda: "starting"
        """How the service is, asked every few seconds."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._is_ready = False
        self._status = ""
        self._stuck: frozenset[str] = frozenset()

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self:
        """As the manager has set it, which is taken out: programs that growd starts are not meant by it."""
        address, interval, process = (environment.pop(name, "") for name in _VARIABLES)
        if not address.startswith(("/", "@")):
            return cls()
        is_meant = not process or process == str(os.getpid())
        watchdog_s = int(interval) / _MICRO if interval.isdecimal() and is_meant else 0.0
        return cls(address, watchdog_s or None)

    @property
    def is_there(self) -> bool:
        """Whether somebody listens."""
        return bool(self._address)

    def ready(self) -> None:
        """The start is over, or a reload."""
        self._is_ready = True
        self._tell("READY=1")

    def reloading(self) -> None:
        """The configuration is read again; `ready` ends it."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The way down has begun."""
        self._tell("STOPPING=1")

    def status(self, words: str) -> None:
        """What is to be read beside the service, told when it has changed."""
        words = " ".join(words.split())  # a line break would begin another assignment
        if words != self._status and self._tell(f"STATUS={words}"):
            self._status = words

    @contextlib.asynccontextmanager
    async def attended(self, liveness: Liveness) -> AsyncIterator[None]:
        """Tell the words and feed the watchdog around the body, as long as all loops advance."""
        if not self.is_there:
            yield
            return
        task = asyncio.create_task(self._attend(liveness), name="service manager")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _attend(self, liveness: Liveness) -> None:
        period = WORDS_S if self.watchdog_s is None else min(WORDS_S, self.watchdog_s / 2)
        began = time.monotonic()
        while True:
            stuck = liveness.stuck()
            self._note(stuck)
            if self.watchdog_s is not None and not stuck:
                self._tell("WATCHDOG=1")
            if not self._is_ready and time.monotonic() - began < LONGEST_START_S:
                self._tell(f"EXTEND_TIMEOUT_USEC={round(START_S * _MICRO)}")
            self.status(_sentence(stuck) if stuck else self._in_words())
            await asyncio.sleep(period)  # real: the watchdog's time is

    def _note(self, stuck: list[Heartbeat]) -> None:
        """In the log, once for each that got stuck and once for each that goes on."""
        names = frozenset(each.name for each in stuck)
        for each in stuck:
            if each.name not in self._stuck:
                _log.error("%s%s", each, "" if self.watchdog_s is None else "; the watchdog is not fed")
        for name in sorted(self._stuck - names):
            _log.warning("%s advances again", name)
        self._stuck = names

    def _in_words(self) -> str:
        """A mistake in what is only told must not starve the watchdog."""
        try:
            return self.words()
        except Exception:  # noqa: BLE001  whatever it is
            if self._status != _UNKNOWN:
                _log.exception("how growd is can't be told")
            return _UNKNOWN

    def _tell(self, *lines: str) -> bool:
        """Whether it was sent."""
        if not self._address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto("\n".join(lines).encode(errors="replace"), self._address)
        except OSError as error:
            _log.debug("the service manager can't be told %s: %s", lines[0], error)
            return False
        return True


def passed_sockets(environment: MutableMapping[str, str] = os.environ) -> list[socket.socket]:
    """The sockets that the manager listens on in this process's place (sd_listen_fds(3)), mostly none.

    As with the other variables, programs that growd starts are not meant.
    """
    process, number, _ = (environment.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES"))
    if process != str(os.getpid()) or not number.isdecimal():
        return []
    passed = [socket.socket(fileno=FIRST_PASSED + index) for index in range(int(number))]
    for each in passed:
        each.set_inheritable(False)
        each.setblocking(False)
    return passed


def _sentence(stuck: list[Heartbeat]) -> str:
    return f"stuck: {'; '.join(map(str, stuck))}"
