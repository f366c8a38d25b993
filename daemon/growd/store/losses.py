"""Dropped points: counted over restarts, and recorded as events."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from growd.bus.errors import counted
from growd.store.errors import LocalStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.runtime.clock import Clock
    from growd.store.local import LocalStore
    from growd.store.outbox import Outbox

EACH_S: Final = 600.0
"""Seconds between two events, and how long `is_losing` holds after the last loss."""

_KEY: Final = "dropped_points"
_log = logging.getLogger(__name__)


class Losses:
    """Counts dropped points; `record` stores a sentence as an event."""

    def __init__(
        self, outbox: Outbox, local: LocalStore, clock: Clock, record: Callable[[str], None]
    ) -> None:
        self.last_at = 0.0  # UNIX seconds; 0 for never
        self._outbox = outbox
        self._local = local
        self._clock = clock
        self._record = record
        self._before = 0  # dropped before this start
        self._recorded = 0  # of those since this start
        self._lost_since: float | None = None  # monotonic, of the last loss

    @property
    def total(self) -> int:
        """Points dropped since the data folder was made."""
        return self._before + self._outbox.dropped

    @property
    def lost_ago_s(self) -> float | None:
        """Seconds since a point was dropped; None if none was since growd started."""
        return None if self._lost_since is None else self._clock.monotonic() - self._lost_since

    @property
    def is_losing(self) -> bool:
        """Whether a point was dropped in the last `EACH_S` seconds, or the data folder is gone."""
        ago = self.lost_ago_s
        return self._local.is_gone or (ago is not None and ago < EACH_S)

    async def load(self) -> None:
        """Read the number from before. Raises `LocalStoreError`."""
        self._before, self.last_at = await self._local.state(_KEY, (0, 0.0))

    async def run(self) -> None:
        """Record losses until cancelled; then call `finish`."""
        while True:
            await self._outbox.lost.wait()
            self._outbox.lost.clear()
            self._lost_since, self.last_at = self._clock.monotonic(), self._clock.time()
            self._record_event()
            await self._save()
            await self._clock.sleep(EACH_S)

    async def finish(self) -> None:
        """Record the points that were dropped since the last event."""
        if self._outbox.dropped > self._recorded:
            self.last_at = self._clock.time()
            self._record_event()
            await self._save()

    def _record_event(self) -> None:
        number = self._outbox.dropped - self._recorded
        self._recorded = self._outbox.dropped
        self._record(f"{counted(number, 'point')} dropped for lack of room")

    async def _save(self) -> None:
        try:
            await self._local.save_state(_KEY, (self.total, self.last_at))
        except LocalStoreError as error:
            _log.warning("could not save the number of lost points: %s", error)
