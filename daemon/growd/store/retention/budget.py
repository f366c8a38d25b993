"""The room that the database may take, and what is done when it is short."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from growd.config import Retention
    from growd.store.retention.sizes import DatabaseFile, DiskUse


class RetentionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What retention does. Sizes are bytes, times UNIX seconds.

    `needed` is what the database takes with room for its compaction; `limit` is None without one. Nothing is
    deleted before `begins_at` (0: unknown yet). `waits_for` says why points that are due are not deleted, or
    what the task waits for. `retired` counts the points that were deleted since growd started. `keep_days` is
    the option, 0: all stay.
    """

    shortage: str
    text: str
    used: int
    needed: int
    limit: float | None
    begins_at: float
    waits_for: str
    retired: int
    keep_days: float


SPARSE_S: Final = 60.0
"""While `STORING_LESS`, at most one value of each variable is stored in this time."""

_MB: Final = 1_000_000
_DISK_SHARE: Final = 0.7
"""Share of the disk that the database may take, with the room that its compaction needs."""

_FREE: Final = 500 * _MB
_FREE_SHARE: Final = 0.1
"""What stays free: so many bytes, or this share of a small disk."""

_ENOUGH: Final = 0.80
_SHORT: Final = 0.85
_STORABLE: Final = 0.90
_FULL: Final = 0.95
"""Shares of the limit: a shortage begins at `_SHORT` and ends at `_ENOUGH`. Above `_FULL` nothing more is
stored until `_STORABLE`, so that there is always room for the compaction that ends the shortage."""

_WORTH: Final = 0.1
_WORTH_IF_FULL: Final = 0.02
"""A compaction is worth its writes if this share of what the database takes is unused."""


class Shortage(IntEnum):
    """What is done when room is short; each step includes those before it."""

    NONE = 0
    COMPACTING = 1
    """Compact the databases, also outside of the quiet hours."""

    RETIRING_EARLY = 2
    """Delete points before `keep_days`, down to `LEAST_DAYS`."""

    STORING_LESS = 3
    """Store measured values and commands at most once a minute."""

    STORING_NOTHING = 4
    """Store no measured values and commands. Set points, events and notes are stored."""


class Budget(NamedTuple):
    """The room of the database in bytes: the `limit`, and what it `needs`, with its compaction."""

    needs: int
    used: int
    limit: float
    cause: str

    @property
    def is_short(self) -> bool:
        """Whether something has to be done."""
        return self.needs > _SHORT * self.limit

    @property
    def is_enough(self) -> bool:
        """Whether a shortage is over."""
        return self.needs <= _ENOUGH * self.limit

    @property
    def is_storable(self) -> bool:
        """Whether values may be stored again, if only few."""
        return self.needs <= _STORABLE * self.limit

    @property
    def is_full(self) -> bool:
        """Whether more would take the room that a compaction needs."""
        return self.needs > _FULL * self.limit

    def __str__(self) -> str:
        used, needs, limit = (round(size / _MB) for size in (self.used, self.needs, self.limit))
        takes = f"the database takes {used} MB, {needs} MB with its compaction"
        return f"{takes}; the limit is {limit} MB ({self.cause})"


def budget(options: Retention, use: DiskUse) -> Budget:
    """The narrowest limit: `budget_mb`, a share of the disk, and what is left above the least free space."""
    limits = {"[retention] budget_mb": options.budget_mb * _MB} if options.budget_mb else {}
    if use.disk is not None and use.free is not None:
        limits[f"{_DISK_SHARE:.0%} of the disk"] = _DISK_SHARE * use.disk
        limits["free space on the disk"] = use.used + use.free - least_free(use.disk)
    cause = min(limits, key=limits.__getitem__, default="")
    return Budget(use.used + use.room, use.used, max(0.0, limits[cause]) if cause else float("inf"), cause)


def least_free(disk: int) -> float:
    """The bytes that stay free on a disk of this size."""
    return min(_FREE, _FREE_SHARE * disk)


def worth_compacting(budget: Budget, use: DiskUse) -> DatabaseFile | None:
    """The file whose compaction frees most, of those whose copy has room; None if none is worth it.

    A copy that is above the limit for some minutes is better than never to compact, if the disk has the room.
    """
    share = _WORTH_IF_FULL if budget.is_full else _WORTH
    worth = [file for file in use.files if file.unused > share * use.used]
    fits = [file for file in worth if use.used + file.active <= budget.limit]
    if fits or use.free is None or use.disk is None:
        return next(iter(fits), None)
    room = use.free - least_free(use.disk)
    return next((file for file in worth if file.active <= room), None)
