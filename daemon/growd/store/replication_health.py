"""How a replication is: told as parameters and node information, and in the log."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from growd.bus.fields import Field, Kind

if TYPE_CHECKING:
    from growd.bus import Node
    from growd.bus.params import Parameter

_log = logging.getLogger(__name__)

UNKNOWN = -1  # the lag as a parameter, whose type has no null


class ReplicationState(StrEnum):
    """The states of a replication."""

    STARTING = "starting"
    RUNNING = "running"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class ReplicationStatus:
    """How one replication is. Times are UNIX seconds of the machine's clock, 0 for never.

    `lag` counts changes of the source that are not there yet; None where nobody knows. `refused` counts
    documents that the target would not have, since the job began; `restarts` those by growd.
    """

    name: str
    source: str
    target: str
    state: ReplicationState
    since: float
    lag: int | None
    last_error: str
    last_error_time: float
    failures: int
    refused: int
    restarts: int

    @property
    def has_failed(self) -> bool:
        """Nothing is replicated at present."""
        return self.state is ReplicationState.FAILING


class ReplicationHealth:
    """The state of one replication, in the parameters `replication/<name>/...`.

    A failure is logged once, and its end once with its length. `source` and `target` are addresses without
    credentials. Time is the machine's: the far side is real.
    """

    def __init__(self, node: Node, name: str, source: str, target: str) -> None:
        self.state = ReplicationState.STARTING
        self.lag: int | None = None
        self.refused = 0
        self.restarts = 0
        self._name = name
        self._source, self._target = source, target
        self._since = time.time()
        self._failures = 0
        self._failing_since: float | None = None
        self._last_error = ("", 0.0)
        self._parameters = _declare(node, f"{node.name}/{name}")
        self.tell()

    def running(self) -> None:
        """It replicates, and its far side answers."""
        if self.state is ReplicationState.RUNNING:
            return
        self._be(ReplicationState.RUNNING)
        if self._failing_since is None:
            _log.info("replication of %s to %s runs", self._name, self._target)
        else:
            seconds = time.monotonic() - self._failing_since
            _log.warning(
                "replication of %s to %s runs again, after %.0f s", self._name, self._target, seconds
            )
        self._failing_since = None

    def failing(self, sentence: str) -> None:
        """It does not replicate; told anew where the reason is another one."""
        if self._last_error[0] != sentence or self.state is not ReplicationState.FAILING:
            self._last_error = (sentence, time.time())
        if self.state is not ReplicationState.FAILING:
            self._failures += 1
            self._failing_since = time.monotonic()
            self._be(ReplicationState.FAILING)
            _log.warning("replication of %s to %s fails: %s", self._name, self._target, sentence)

    def status(self) -> ReplicationStatus:
        """All of it at this moment."""
        message, at = self._last_error
        return ReplicationStatus(
            name=self._name,
            source=self._source,
            target=self._target,
            state=self.state,
            since=self._since,
            lag=self.lag,
            last_error=message,
            last_error_time=at,
            failures=self._failures,
            refused=self.refused,
            restarts=self.restarts,
        )

    def tell(self) -> None:
        """Bring the parameters up to date."""
        status = self.status()
        values = {
            "state": str(status.state),
            "since": status.since,
            "lag": UNKNOWN if status.lag is None else status.lag,
            "last_error": status.last_error,
            "last_error_time": status.last_error_time,
            "refused": status.refused,
            "restarts": status.restarts,
        }
        for name, value in values.items():
            if self._parameters[name].value != value:
                self._parameters[name].tell(value)

    def _be(self, state: ReplicationState) -> None:
        self.state, self._since = state, time.time()


def _declare(node: Node, prefix: str) -> dict[str, Parameter]:
    fields = (
        Field("state", Kind.STRING, default=""),
        Field("since", Kind.FLOAT64, 0, unit="s", default=0.0, doc="UNIX seconds"),
        Field("lag", Kind.INT64, UNKNOWN, default=UNKNOWN, doc="changes not there yet; -1: not known"),
        Field("last_error", Kind.STRING, default=""),
        Field("last_error_time", Kind.FLOAT64, 0, unit="s", default=0.0, doc="UNIX seconds, 0 for never"),
        Field("refused", Kind.INT64, 0, default=0, doc="documents that the target would not have"),
        Field("restarts", Kind.INT64, 0, default=0),
    )
    return {field.name: node.declare(f"{prefix}/{field.name}", field, read_only=True) for field in fields}
