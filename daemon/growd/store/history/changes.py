"""Follows the changes of the databases: what was remembered is forgotten, and rollups that lack points."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from growd.store.errors import StoreError
from growd.store.history.coverage import FINEST, Coverage
from growd.store.rollups.document import span_of
from growd.store.rollups.rolled import times_of_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.store.history.cache import BucketCache
    from growd.store.reading.source import Change, SourceReader
    from growd.store.rollups.state import RollupState

_MOST_CHANGES: Final = 2_000  # in one answer
_MOST_CHANGE_PAGES: Final = 10  # above that, everything is read again


@dataclass(slots=True)
class _Followed:
    """A database whose changes are known up to `since`.

    `changed` are the hours that changed behind the checkpoint of the rollups; None for any. `late` are those
    of sealed rollups that get points now.
    """

    since: str | None = None
    checkpoint: str | int | None = None
    changed: set[int] | None = None
    late: set[int] = field(default_factory=set)


class ChangeFollower:
    """Forgets the buckets of points that came, and finds the rollups that lack them."""

    def __init__(self, cache: BucketCache) -> None:
        self._cache = cache
        self._followed: dict[str, _Followed] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def follow(self, reader: SourceReader, database: str) -> Coverage:
        """Forget the buckets of the points that came into a database since the last call.

        A client that goes away may cancel this anywhere: to forget a bucket twice does no harm.
        """
        async with self._locks[database]:
            followed = self._followed.setdefault(database, _Followed())
            try:
                followed.since, times = await self._times(reader, database, followed.since)
                if times is None:
                    self._cache.clear(database)
                else:
                    self._cache.forget(database, [*times, *followed.late])
                state = await reader.rollup_state(database)
                self._cache.seal(database, 0 if state is None else state.sealed_until)
                if state is None:
                    return Coverage()
                await self._find_changed(reader, database, followed, state, times)
                followed.late = {int(each["start"]) for each in state.late}
                followed.late |= {hour for hour in followed.changed or () if hour < state.sealed_until}
            except StoreError:
                self._followed.pop(database, None)  # it may be another database
                raise
            return Coverage.of(state, followed.changed)

    async def _find_changed(
        self,
        reader: SourceReader,
        database: str,
        followed: _Followed,
        state: RollupState,
        times: list[float] | None,
    ) -> None:
        """Find the hours with points behind the checkpoint of the rollups; `times` are those just found."""
        if state.seq is None or state.resume_at is not None:
            followed.changed = None
        elif state.seq == followed.checkpoint and times is not None and followed.changed is not None:
            followed.changed = followed.changed | _hours(times)
        else:
            if followed.changed is None:
                self._cache.clear(database)  # sealed rollups may have been read that lacked points
            _, times = await self._times(reader, database, str(state.seq))
            followed.changed = None if times is None else _hours(times)
        followed.checkpoint = state.seq

    async def _times(
        self, reader: SourceReader, database: str, since: str | None
    ) -> tuple[str, list[float] | None]:
        """How far the changes are known now, and the times of the points that changed; None for any time."""
        times: list[float] | None = None if since is None else []
        for _ in range(_MOST_CHANGE_PAGES):
            changes = await reader.changes(database, since, _MOST_CHANGES)
            since = str(changes.last_seq)
            if times is not None:
                found = await _times_of(reader, database, changes.results)
                times = None if found is None else times + found
            if len(changes.results) < _MOST_CHANGES:
                return since, times
            if changes.pending > _MOST_CHANGES * _MOST_CHANGE_PAGES:
                break
        return str((await reader.changes(database, None, 1)).last_seq), None


async def _times_of(reader: SourceReader, database: str, changes: Sequence[Change]) -> list[float] | None:
    """The times of points that came, changed or went; None if one of them cannot be known.

    The id of a point that growd made has its time. Other points are read, and can be found only while new.
    """
    times: list[float] = []
    unknown: list[str] = []
    for change in changes:
        made = times_of_id(change.id)
        times += made
        if change.id.startswith("_design/"):
            continue
        if not made and not change.is_new:
            return None
        if not made or not (change.is_new or change.deleted):
            unknown.append(change.id)
    return times + (await reader.times(database, unknown) if unknown else [])


def _hours(times: Sequence[float]) -> set[int]:
    return {span_of(FINEST, time) for time in times}
