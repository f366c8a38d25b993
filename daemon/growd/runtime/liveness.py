"""Which loops are stuck, and which components keep failing.

Each long-lived loop has a heartbeat while it runs, and beats once per turn. A loop that waits for work is
idle, not stuck. A loop that has failed has no heartbeat until its supervisor restarts it; its failures are
counted under the name of the component.
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
"""Time limit of a turn of a loop with a period of seconds; slow calls on its bus take a part of it."""

STORE_S: Final = 120.0
"""The same for a loop that writes to disk: a worn SD card takes many seconds for a block."""

SHIPPING_S: Final = 600.0
"""The same for a loop that sends to the database: ten requests, each with its time limit."""

FAILURES: Final = 2
"""A component that fails more often than this within `FAILING_S` keeps failing."""

FAILING_S: Final = 600.0
SHOWN: Final = 300  # characters of an error that are stored


@dataclass(slots=True)
class Component:
    """A component that has failed; `failures` counts since growd started."""

    name: str
    failures: int = 0
    last_error: str = ""
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=FAILURES + 1))


class Heartbeat:
    """The heartbeat of one loop. `patience_s` is in real seconds, whatever clock the loop uses."""

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
        """The loop has started another turn."""
        self.at = self._monotonic()

    def is_stuck(self) -> bool:
        """Whether the last beat is too long ago and the loop is not idle."""
        if self._is_idle():
            self.at = self._monotonic()
        return self._monotonic() - self.at > self.patience_s

    def __str__(self) -> str:
        return f"{self.name} has not advanced for more than {self.patience_s:g} s"


class Liveness:
    """The heartbeats of all running loops, and the components that have failed.

    `slowest` is the speed of the clock of the loops, if it runs slower than real time. Intervals are real
    seconds of a monotonic clock.
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
        """The heartbeat of a loop whose turns take at most `patience_s` seconds of its clock.

        `is_idle` returns whether the loop waits for work.
        """
        heartbeat = Heartbeat(name, patience_s / self._slowest, is_idle, self._monotonic)
        self._heartbeats.add(heartbeat)
        try:
            yield heartbeat
        finally:
            self._heartbeats.discard(heartbeat)

    def failed(self, name: str, error: BaseException) -> None:
        """Count a failure of a component that is restarted, or that skips a message."""
        component = self._components.setdefault(name, Component(name))
        component.failures += 1
        component.last_error = f"{type(error).__name__}: {error}".rstrip(": ")[:SHOWN]
        component.recent.append(self._monotonic())

    def components(self) -> list[Component]:
        """The components that have failed since growd started, sorted by name."""
        return [self._components[name] for name in sorted(self._components)]

    def failing(self) -> list[Component]:
        """Those that failed more than `FAILURES` times in the last `FAILING_S` seconds."""
        since = self._monotonic() - FAILING_S / self._slowest
        return [each for each in self.components() if len(each.recent) > FAILURES and each.recent[0] >= since]

    def stuck(self) -> list[Heartbeat]:
        """The loops that are stuck, sorted by name."""
        return sorted((each for each in self._heartbeats if each.is_stuck()), key=lambda each: each.name)
