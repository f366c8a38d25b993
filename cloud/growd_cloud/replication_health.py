"""The state of a replication and its lag, as parameters, node information and log lines."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.store.replication_documents import checkpoint_of, info_of
from growd.store.replication_status import ReplicationState, ReplicationStatus

if TYPE_CHECKING:
    from growd.bus import Node
    from growd.bus.params import Parameter
    from growd.store.couch import Couch, Document
    from growd.store.replication_documents import ReplicationJob

_log = logging.getLogger(__name__)

UNKNOWN = -1  # value of the parameter `lag`, whose type has no null

COUNTED: Final = 1_000
"""Up to this many changes the lag is exact. Above, it also counts changes that the selector leaves out."""


class ReplicationHealth:
    """Publishes the status of one replication as the parameters `replication/<name>/...`.

    A failure is logged once, and its end once with its duration. Times are those of the machine's clock,
    because the other server is real.
    """

    def __init__(self, node: Node, name: str, source: str, target: str) -> None:
        self.status = ReplicationStatus(name, source, target)
        self._failing_since: float | None = None
        self._title = f"replication of {name} to {target}"
        self._parameters = _declare(node, f"{node.name}/{name}")
        self.publish()

    @property
    def state(self) -> ReplicationState:
        """The present state."""
        return self.status.state

    def running(self) -> None:
        """Report that it replicates and the other server answers."""
        if self.state is ReplicationState.RUNNING:
            return
        self._enter(ReplicationState.RUNNING)
        if self._failing_since is None:
            _log.info("%s is running", self._title)
        else:
            _log.warning(
                "%s is running again after %.0f s", self._title, time.monotonic() - self._failing_since
            )
        self._failing_since = None

    def failing(self, reason: str) -> None:
        """Report that it does not replicate. Another reason replaces the one before."""
        status = self.status
        if status.last_error != reason or not status.has_failed:
            status.last_error, status.last_error_time = reason, time.time()
        if not status.has_failed:
            status.failures += 1
            self._failing_since = time.monotonic()
            self._enter(ReplicationState.FAILING)
            _log.warning("%s failed: %s", self._title, reason)

    def publish(self) -> None:
        """Update the parameters."""
        for name, parameter in self._parameters.items():
            value = getattr(self.status, name)
            if isinstance(value, ReplicationState):
                value = str(value)
            elif value is None:
                value = UNKNOWN
            if parameter.value != value:
                parameter.show(value)

    def _enter(self, state: ReplicationState) -> None:
        self.status.state, self.status.since = state, time.time()


class ReplicationLag:
    """Measures the lag of one job."""

    def __init__(self, job: ReplicationJob) -> None:
        self._job = job
        self.through: Any = None  # the sequence of the source up to which the job has copied
        self._nothing_until: Any = None  # up to this sequence no change passes the selector

    async def measure(self, local: Couch, source: Couch, report: Document) -> int:
        """The lag of a job with this `report` of `_scheduler/docs`. Raises `CouchError`."""
        info = info_of(report)
        through = info.get("through_seq")
        if through is None:
            through = info.get("checkpointed_source_seq")
        if through is None:
            through = self.through
        if through is None:
            through = await checkpoint_of(local, self._job, report) or 0
        if through != self.through:
            self.through, self._nothing_until = through, None
        return await self._count(source, self.through if self._nothing_until is None else self._nothing_until)

    async def _count(self, source: Couch, since: Any) -> int:
        page = await source.changes(self._job.source, since, 1)
        # Without a selector, which would read all points of a year to count them.
        total = len(page["results"]) + int(page.get("pending") or 0)
        if total > COUNTED:
            return total
        page = await source.changes(self._job.source, since, COUNTED, self._job.selector)
        if not page["results"]:
            self._nothing_until = page["last_seq"]
        return len(page["results"])


def _declare(node: Node, prefix: str) -> dict[str, Parameter]:
    fields = (
        Field("state", Kind.STRING, default=""),
        Field("since", Kind.FLOAT64, 0, unit="s", default=0.0, doc="UNIX seconds"),
        Field(
            "lag", Kind.INT64, UNKNOWN, default=UNKNOWN, doc="changes that the target lacks; -1: not known"
        ),
        Field("last_error", Kind.STRING, default=""),
        Field("last_error_time", Kind.FLOAT64, 0, unit="s", default=0.0, doc="UNIX seconds, 0 for never"),
        Field("refused", Kind.INT64, 0, default=0, doc="documents that the target refused"),
        Field("restarts", Kind.INT64, 0, default=0),
    )
    return {field.name: node.declare(f"{prefix}/{field.name}", field, read_only=True) for field in fields}
