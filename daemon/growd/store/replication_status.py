"""The state of a replication, for status."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum


class ReplicationState(StrEnum):
    """The states of a replication."""

    STARTING = "starting"
    RUNNING = "running"
    FAILING = "failing"


@dataclass(slots=True)
class ReplicationStatus:
    """The state of one replication. Times are UNIX seconds of the machine's clock, 0 for never.

    `source` and `target` are addresses without credentials. `lag` is the number of changes of the source that
    the target lacks, None if unknown. `refused` counts the documents that the target refused since the job
    began, `restarts` the restarts by growd.
    """

    name: str
    source: str
    target: str
    state: ReplicationState = ReplicationState.STARTING
    since: float = field(default_factory=time.time)
    lag: int | None = None
    last_error: str = ""
    last_error_time: float = 0.0
    failures: int = 0
    refused: int = 0
    restarts: int = 0

    @property
    def has_failed(self) -> bool:
        """Whether nothing is replicated at present."""
        return self.state is ReplicationState.FAILING
