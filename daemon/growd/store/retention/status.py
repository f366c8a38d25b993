"""What retention does, for the status of the daemon."""

from __future__ import annotations

import msgspec


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
