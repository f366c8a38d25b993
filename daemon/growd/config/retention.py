"""The section on how long points are kept, and how much room the database may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from growd.config.base import Section
from growd.config.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_DAYS: Final = 7.0
"""Points younger than this are never deleted, even if room is short."""


class Retention(Section, frozen=True):
    """How long points are kept, and how much room the database may take. Rollups of five minutes, hours and
    days stay for ever, and so do set points, events, notes and manual measurements.
    """

    keep_days: Annotated[float, Meta(ge=0, le=36_500)] = 90.0
    """Measured values and commands older than this are deleted, once they are rolled up and confirmed by the
    remote server of a replication. 0 keeps all for ever."""

    budget_mb: Annotated[float, Meta(ge=0, le=100_000_000)] = 0.0
    """Room for the database with its compaction. 0: what the disk allows (docs/retention.md)."""


def faults_of_retention(options: Retention) -> Iterator[Finding]:
    """Options of the section that contradict each other."""
    if 0 < options.keep_days < LEAST_DAYS:
        reason = f"must be 0 or from {LEAST_DAYS:g}, got {options.keep_days:g}"
        yield Finding(("retention", "keep_days"), reason)
