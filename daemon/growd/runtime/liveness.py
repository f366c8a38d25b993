"""Liveness: which loops have not advanced for longer than they may, and which components keep failing.

Each long-lived loop declares a heartbeat for as long as it runs, and beats whenever it comes round. A loop
that waits for work, a device that is absent or a database that is away are no standstill: the loop says that
it is idle, or comes round to try again. A loop that has failed has no heartbeat until its supervisor starts
it again; its failures are counted by the component's name.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOP_S: Final = 60.0
"""How long a loop may be silent that comes round each second or every few: its slowest call to a device, with
those of all others on the same bus before it, takes a part of that."""

STORE_S: Final = 120.0
"""How long one that writes to the disk may be: a worn card takes many seconds for a block."""

SHIPPING_S: Final = 600.0
"""How long one that asks the database may be: ten requests, each at the end of its time limit."""


FAILURES: Final = 2
"""A component that fails more often than this within `FAILING_S` keeps failing."""

FAILING_S: Final = 600.0
SHOWN: Final = 300  # characters of an error that are kept


@dataclass(slots=True)
class Component:
    """A part of growd that has failed: `failures` since growd started, and why it failed last."""

    name: str
    failures: int = 0
    last_error: str = ""
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=FAILURES + 1))


class Heartbeat:
    """The sign of life of one loop. `patience_s` is real seconds, whatever clock the loop goes by."""

    __slots__ = ("_is_idle", "_monotonic", "at", "name", "patience_s")

    def __init__(
        self, name: str, patience_s: float, is_idle: Callable[[], bool], monotonic: Callable[[], float]
    ) -> None:
        self.name = name
        self.patience_s = patience_s
        self.at = monotonic()
        self._is_idle = is_idle
        self._monotonic = monotonic

    def beat(self) -> None:
        """The loop has come round."""
        self.at = self._monotonic()

    def is_stuck(self) -> bool:
        """Whether it has been silent for too long, with something to do."""
        if self._is_idle():
            self.at = self._monotonic()
        return self._monotonic() - self.at > self.patience_s

    def __str__(self) -> str:
        return f"{self.name} has not advanced for more than {self.patience_s:g} s"


class Liveness:
    """The heartbeats of all loops that run, and the components that have failed.

    `slowest` is below 1 where the clock of the loops may run so many times as fast as the machine's, that is
    slower. Intervals are real time, of a monotonic clock: a wall clock that is set starves nobody.
    """

    def __init__(self, slowest: float = 1.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._slowest = min(1.0, slowest)
        self._monotonic = monotonic
        self._heartbeats: set[Heartbeat] = set()
        self._components: dict[str, Component] = {}

    @contextlib.contextmanager
    def heartbeat(
        self, name: str, patience_s: float = LOOP_S, is_idle: Callable[[], bool] = lambda: False
    ) -> Iterator[Heartbeat]:
        """The heartbeat of a loop that may be silent for `patience_s` seconds of its clock.

        `is_idle` tells whether it waits for work that is not there, which it may for ever.
        """
        heartbeat = Heartbeat(name, patience_s / self._slowest, is_idle, self._monotonic)
        self._heartbeats.add(heartbeat)
        try:
            yield heartbeat
        finally:
            self._heartbeats.discard(heartbeat)

    def failed(self, name: str, error: BaseException) -> None:
        """Count a failure of a component, which is started again or goes on without a message."""
        component = self._components.setdefault(name, Component(name))
        component.failures += 1
        component.last_error = f"{type(error).__name__}: {error}".rstrip(": ")[:SHOWN]
        component.recent.append(self._monotonic())

    def components(self) -> list[Component]:
        """All that have failed since growd started, by name."""
        return [self._components[name] for name in sorted(self._components)]

    def failing(self) -> list[Component]:
        """Those that failed more than `FAILURES` times in the last `FAILING_S` seconds, by name."""
        since = self._monotonic() - FAILING_S / self._slowest
        return [each for each in self.components() if len(each.recent) > FAILURES and each.recent[0] >= since]

    def stuck(self) -> list[Heartbeat]:
        """Those that have been silent for too long, by name."""
        return sorted((each for each in self._heartbeats if each.is_stuck()), key=lambda each: each.name)
