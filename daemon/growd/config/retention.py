"""The section on how long points are kept, and how much room the database may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from growd.config.base import Section
from growd.config.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

_Hour = Annotated[float, Meta(ge=0, le=24)]


class Retention(Section, frozen=True):
    """How long points are kept, and how much room the database may take. Rollups of five minutes, hours and
    days stay for ever, and so do set points, events, notes and manual measurements.
    """

    keep_days: Annotated[float, Meta(ge=0, le=36_500)] = 90.0
    """Measured values and commands older than this are deleted, once they are rolled up and confirmed by the
    remote server of a replication. 0 keeps all for ever."""

    least_days: Annotated[float, Meta(ge=2, le=36_500)] = 7.0
    """Points younger than this are never deleted, even if room is short."""

    disk_share: Annotated[float, Meta(gt=0, le=1)] = 0.7
    """Share of the disk that the database may take, with the room that its compaction needs. It counts for
    the embedded database and for a CouchDB on this machine."""

    free_mb: Annotated[float, Meta(ge=0, le=100_000_000)] = 500.0
    """Free space that the database leaves on the disk, likewise. On a disk under 5 GB it is a tenth."""

    budget_mb: Annotated[float, Meta(ge=0, le=100_000_000)] = 0.0
    """Room for the database with its compaction. 0: only the two limits above."""

    quiet_from: _Hour = 1.0
    """Hour of the day, in the time zone of the environment, from which points are deleted. If room is short
    they are deleted at any time."""

    quiet_to: _Hour = 5.0
    """Hour of the day until which points are deleted. The same as quiet_from: at any time."""


def faults_of_retention(options: Retention) -> Iterator[Finding]:
    """Options of the section that contradict each other."""
    if 0 < options.keep_days < options.least_days:
        reason = f"{options.keep_days:g} is less than least_days, {options.least_days:g}"
        yield Finding(("retention", "keep_days"), reason)
