"""Which rollups may be read in the place of points, and which part of a range is read from which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from growd.store.rollups.document import WIDTHS, RollupSeries, series_text, span_of
from growd.store.rollups.state import EVERY_SERIES

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from growd.store.rollups.state import RollupState

FINEST: Final = min(WIDTHS)
_HOUR: Final = WIDTHS[FINEST]
_NEAR_S: Final = 6 * _HOUR


class Part(NamedTuple):
    """A part of a range, in seconds, and the width of the rollups to read it from; 0 for points."""

    width: int
    start: int
    end: int


class Coverage(msgspec.Struct, frozen=True):
    """What the rollups of a database have, at the time of a request.

    Points before `sealed_until` may be retired: rollups stand for them. `changed` are the starts of the hours
    with points that the rollups do not have yet; None if they are not known, so that only sealed ones count.
    `pending` is that of `RollupState`.
    """

    sealed_until: int = 0
    changed: AbstractSet[int] | None = None
    pending: dict[str, dict[str, list[int]]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, state: RollupState, changed: AbstractSet[int] | None) -> Coverage:
        """The coverage that a state describes."""
        return cls(state.sealed_until, changed, state.pending)

    def edge(self, series: RollupSeries, now: float) -> int:
        """The time from which on points are read: the hours near `now` that are not rolled up yet."""
        if self.changed is None:
            return self.sealed_until
        hours = [start for start, _ in self._stale(series, FINEST) if start >= now - _NEAR_S]
        return max(self.sealed_until, min([*hours, span_of(FINEST, now)]))

    def parts(self, series: RollupSeries, width: int, start: int, end: int) -> list[Part]:
        """The parts of a range before the edge, in order: the widest rollups up to `width` that are right."""
        finer = max((each for each in WIDTHS if each < width), default=0)
        first, last = -(-start // width) * width, end // width * width
        lacking = [(start, first), (last, end)]
        lacking += [(at // width * width, -(-to // width) * width) for at, to in self._stale(series, width)]
        found: list[Part] = []
        at = lacks_until = start  # everything up to `at` is found
        for lacking_from, lacking_to in sorted(lacking):
            if (until := min(lacking_from, last)) > lacks_until:
                found += self._finer(series, finer, at, lacks_until)
                found.append(Part(width, lacks_until, until))
                at = lacks_until = until
            lacks_until = max(lacks_until, min(lacking_to, end))
        return found + self._finer(series, finer, at, lacks_until)

    def _finer(self, series: RollupSeries, width: int, start: int, end: int) -> list[Part]:
        if start >= end:
            return []
        return self.parts(series, width, start, end) if width else [Part(0, start, end)]

    def _stale(self, series: RollupSeries, width: int) -> list[tuple[int, int]]:
        """The spans in which the buckets of a width lack points."""
        found = {(hour, hour + _HOUR) for hour in self.changed or ()}
        for each in WIDTHS:
            if each <= width:
                by_series = self.pending.get(str(each), {})
                starts = {*by_series.get(series_text(series), ()), *by_series.get(EVERY_SERIES, ())}
                found |= {(start, start + WIDTHS[each]) for start in starts}
        if width == FINEST:  # what is sealed is not made from points again
            found = {span for span in found if span[0] >= self.sealed_until}
        return sorted(found)
