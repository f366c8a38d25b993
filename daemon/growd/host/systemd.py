"""Notifications to systemd (sd_notify(3)): ready, reloading, stopping, status line and watchdog.

A notification is a datagram of lines `NAME=value` to the UNIX socket in NOTIFY_SOCKET. Sending does not
block: a datagram is lost if the socket is full.
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

PERIOD_S: Final = 15.0  # of the status line, whose text takes 3 ms
START_S: Final = 60.0  # by which the start timeout is extended each time
LONGEST_START_S: Final = 900.0  # no extension after this; repairing a damaged 256 MB file takes minutes
FIRST_PASSED: Final = 3  # file descriptor of the first passed socket (sd_listen_fds(3))
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_UNKNOWN: Final = "running"
_MICRO: Final = 1_000_000
_log = logging.getLogger(__name__)


class ServiceManager:
    """systemd; without it (no `address`) all methods do nothing. `watchdog_s`: None without a watchdog."""

    def __init__(self, address: str = "", watchdog_s: float | None = None) -> None:
        self.watchdog_s = watchdog_s if address else None
        self.status_line: Callable[[], str] = lambda: "starting"
        """Returns the status line; called every few seconds."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._is_ready = False
        self._status = ""
        self._stuck: frozenset[str] = frozenset()

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self:
        """From variables that systemd sets; they are removed, so that child processes do not use them."""
        address, interval, process = (environment.pop(name, "") for name in _VARIABLES)
        if not address.startswith(("/", "@")):
            return cls()
        is_meant = not process or process == str(os.getpid())
        watchdog_s = int(interval) / _MICRO if interval.isdecimal() and is_meant else 0.0
        return cls(address, watchdog_s or None)

    @property
    def is_there(self) -> bool:
        """Whether systemd started this process as a service."""
        return bool(self._address)

    @property
    def period_s(self) -> float:
        """Seconds between notifications: at most half those of the watchdog, a third in the start."""
        period = PERIOD_S if self.watchdog_s is None else min(PERIOD_S, self.watchdog_s / 2)
        return period if self._is_ready else period / 3

    def ready(self) -> None:
        """The start or a reload has finished."""
        self._is_ready = True
        self._notify("READY=1")

    def reloading(self) -> None:
        """A reload of the configuration has started; `ready` ends it."""
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The shutdown has started."""
        self._notify("STOPPING=1")

    def send_status(self, words: str) -> None:
        """Send the status line if it has changed."""
        words = " ".join(words.split())  # a line break would start another assignment
        if words != self._status and self._notify(f"STATUS={words}"):
            self._status = words

    @contextlib.asynccontextmanager
    async def attended(self, liveness: Liveness) -> AsyncIterator[None]:
        """Send the status line, and feed the watchdog while no loop is stuck, for the body."""
        if not self._address:
            yield
            return
        task = asyncio.create_task(self._attend(liveness), name="service manager")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _attend(self, liveness: Liveness) -> None:
        began = time.monotonic()
        while True:
            stuck = liveness.stuck()
            self._log_stuck(stuck)
            if self.watchdog_s is not None and not stuck:
                self._notify("WATCHDOG=1")
            if not self._is_ready and time.monotonic() - began < LONGEST_START_S:
                self._notify(f"EXTEND_TIMEOUT_USEC={round(START_S * _MICRO)}")
            self.send_status(_sentence(stuck) if stuck else self._status_line())
            await asyncio.sleep(self.period_s)  # real: the watchdog's time is

    def _log_stuck(self, stuck: list[Heartbeat]) -> None:
        """Log each loop once when it gets stuck, and once when it advances again."""
        names = frozenset(each.name for each in stuck)
        for each in stuck:
            if each.name not in self._stuck:
                _log.error(
                    "%s%s", each, "" if self.watchdog_s is None else "; growd no longer feeds the watchdog"
                )
        for name in sorted(self._stuck - names):
            _log.warning("%s advances again", name)
        self._stuck = names

    def _status_line(self) -> str:
        """An error in the status line must not starve the watchdog."""
        try:
            return self.status_line()
        except Exception:  # noqa: BLE001
            if self._status != _UNKNOWN:
                _log.exception("could not make the status line for systemd")
            return _UNKNOWN

    def _notify(self, *lines: str) -> bool:
        """Send a notification; return whether it was sent."""
        if not self._address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto("\n".join(lines).encode(errors="replace"), self._address)
        except OSError as error:
            _log.debug("could not send %s to systemd: %s", lines[0], error)
            return False
        return True


def passed_sockets(environment: MutableMapping[str, str] = os.environ) -> list[socket.socket]:
    """The sockets that systemd has opened for this process (sd_listen_fds(3)), usually none.

    The variables are removed, as those of `ServiceManager` are.
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
