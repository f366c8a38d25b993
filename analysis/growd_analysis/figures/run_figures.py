"""Reads the points of a run from the database and makes its figures."""

from __future__ import annotations

import asyncio
import copy
from bisect import bisect_right
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from itertools import chain
from math import inf, nextafter
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from growd.bus.errors import InvalidValueError
from growd.recipes.circumstances import counted_outputs
from growd.store.errors import StoreError
from growd.store.reading.pages import MOST_ROWS, slices
from growd.store.reading.source import ExportedPoint, Series, Span, exported_point
from growd.store.rollups.document import RETIRED, RollupSeries, span_of
from growd.variables import VALVE, VARIABLES
from growd.wiring.actuators import rated_outputs
from growd_analysis.figures.account import Bucket, RunAccount
from growd_analysis.figures.figures import GRAMS_PER_LITRE, NO_RATINGS, OutputFigures, Rating, RunFigures
from growd_analysis.figures.series_account import short

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber
    from growd.control.wear import Rated
    from growd.store.couch import Document
    from growd.store.history.history import History
    from growd.store.reading.source import SourceReader
    from growd.store.rollups.document import Rollup

LONGEST_DAYS: Final = 1_100
"""Of a run. A longer one has a wrong time, such as that of a clock before it was set."""

_LAST_START: Final = 7_258_118_400.0  # the year 2200
_SPAN_S: Final = 86_400  # of rollups that are read at once
_EVENTS_BEFORE: Final = 20  # of each kind, which tell the state at the start


class _Timed(NamedTuple):
    """A point (see `_rank_of`), or the begin (rank 1) or end (rank 0) of a bucket, at its UNIX time."""

    time: float
    rank: int
    item: ExportedPoint | Bucket


_NOTHING: Final[list[_Timed]] = []


@dataclass(frozen=True, slots=True)
class RunPoints:
    """What reads the points of a run, and how long a value of a variable holds (`holds_s`, seconds).

    Points before `raw_from` (UNIX seconds) may be retired: until then figures use the five-minute documents
    of the database `rollups` for what is rolled up.
    """

    reader: SourceReader
    holds_s: Callable[[str], float]
    raw_from: float = 0.0

    @classmethod
    async def of(cls, history: History) -> RunPoints:
        """Those that a history reads. Raises `StoreError`."""
        reader = history.reader()
        return cls(reader, history.holds_s, await retired_until(reader))


class FigurePoints(NamedTuple):
    """The points that figures are made of, the ratings of outputs by variable, and their counters now."""

    points: RunPoints
    ratings: Mapping[str, Rating]
    counters: Mapping[str, Any]


async def run_figures(
    run: Mapping[str, Any],
    points: RunPoints,
    *,
    now: float,
    zone: tzinfo | None,
    ratings: Mapping[str, Rating] = NO_RATINGS,
) -> RunFigures:
    """The figures of a run, from its `recipe_run` document, up to its end or the UNIX time `now`.

    `zone` is the time zone of its days, None that of the machine; `ratings` those of the outputs, by
    variable. Reads each point of the environment once and keeps none, so it takes
    seconds for a week and a minute or two for three months. Raises `StoreError`, and
    `InvalidValueError` if the run has impossible times.
    """
    progress = RunProgress(run, points, zone, ratings)
    await progress.read(points, end_of(run, now))
    return with_counted(progress.figures(), run.get("counters"), run.get("counters_at_end"))


def end_of(run: Mapping[str, Any], now: float) -> float:
    """The UNIX time at which the figures of a run end."""
    end = now if run.get("ended") is None else float(run["ended"])
    return max(end, float(run["started"]))


def kept_figures(run: Document) -> RunFigures | None:
    """The figures that an ended run keeps; None without them, and if they are of another form."""
    if run.get("ended") is None or not run.get("figures"):
        return None
    try:
        kept = msgspec.convert(run["figures"], RunFigures)
        check_times(kept.start, kept.end)
    except (msgspec.ValidationError, InvalidValueError):
        return None
    return kept


def _written_by(run: Mapping[str, Any]) -> frozenset[str]:
    """The variables that the recipes of a run name."""
    recipes = msgspec.json.encode([each.get("recipe") for each in (run, *(run.get("revisions") or ()))])
    return frozenset(name for name in VARIABLES if f'"{name}"'.encode() in recipes)


def check_times(start: float, end: float) -> None:
    """Raise `InvalidValueError` for times (UNIX seconds) that no run has."""
    if not (0.0 <= start <= _LAST_START and start <= end <= start + LONGEST_DAYS * 86_400.0):
        expected = f"a start from 1970 to 2200 and at most {LONGEST_DAYS} days"
        raise InvalidValueError("started and ended of the run", expected, [start, end])


class RunProgress:
    """The figures of a run as far as its points were read; a cancelled `read` goes on where it was.

    After `PointsRetiredError` it is of no use any more.
    """

    def __init__(
        self, run: Mapping[str, Any], points: RunPoints, zone: tzinfo | None, ratings: Mapping[str, Rating]
    ) -> None:
        start = float(run["started"])
        check_times(start, start)
        self._environment = str(run["environment"])
        self._start, self._read_to = start, nextafter(start, -inf)
        self._has_begun = False
        written = _written_by(run)
        self.account = RunAccount(
            start, start, zone, holds_s=points.holds_s, ratings=ratings, written=written
        )

    def copied(self) -> RunProgress:
        """An independent copy."""
        copied = copy.copy(self)
        copied.account = self.account.copied()
        return copied

    async def read(self, points: RunPoints, end: float) -> None:
        """Read the points up to a UNIX time. Raises `StoreError`, or `InvalidValueError` if too late."""
        check_times(self._start, end)
        began = self._read_to
        account = self.account
        account.end, account.raw_from = end, points.raw_from
        series = await series_of(points.reader, self._environment)
        if not self._has_begun:
            before = await _before(points, series, self._start)
            self._has_begun = True
            for point in before:
                account.take(point)
        async with aclosing(_in_order(points, series, self._read_to, end)) as reading:
            async for batch in reading:
                for _, rank, one in batch:
                    if isinstance(one, ExportedPoint):
                        account.take(one)
                    else:
                        (account.roll if rank else account.roll_end)(one)
                self._read_to = batch[-1].time
                await asyncio.sleep(0)  # so that other tasks run
        self._read_to = max(self._read_to, end)
        await check_unmoved(points.reader, points.raw_from, began)

    def figures(self) -> RunFigures:
        """The figures up to the end of the last `read`, once."""
        return self.account.figures()


async def _before(points: RunPoints, series: Sequence[Series], start: float) -> list[ExportedPoint]:
    """The newest points before the start, in the order of their times."""
    found: list[ExportedPoint] = []
    for one in series:
        most = _EVENTS_BEFORE if one.key[1] == "event" else 2  # one may have just the time of the start
        newest = await points.reader.newest(one, None, start, most)
        before = [point for point in newest if point.timestamp < start]
        found += before if one.key[1] == "event" else before[:1]
    return sorted(found, key=lambda point: (point.timestamp, _rank_of(point)))


def _rank_of(point: ExportedPoint) -> int:
    """A restart comes before the values of its own moment, which it does not end, and after a stop."""
    return {"stop": -1, "restart": 0}.get(point.variable, 1) if point.kind == "event" else 1


async def _in_order(
    points: RunPoints, series: Sequence[Series], after: float, end: float
) -> AsyncGenerator[list[_Timed]]:
    """Points and buckets after a time, up to `end`, in the order of their times."""
    source = points.reader.source
    environment = series[0].key[0] if series else ""  # without series there are no points
    async with AsyncExitStack() as stack:
        streams: list[AsyncGenerator[list[_Timed]]] = [
            _raw(points, database, environment, after, end) for database in (source.points, source.events)
        ]
        if source.rollups and after < points.raw_from:
            streams.append(_rolled_up(points, series, after, min(end, points.raw_from)))
        for stream in streams:
            await stack.enter_async_context(aclosing(stream))
        waiting: list[list[_Timed]] = [await anext(stream, _NOTHING) for stream in streams]
        while any(waiting):
            # each stream is known up to the last of its batch
            bound = min(batch[-1].time for batch in waiting if batch)
            ready = [bisect_right(batch, bound, key=attrgetter("time")) for batch in waiting]
            yield sorted(
                chain.from_iterable(batch[:n] for batch, n in zip(waiting, ready, strict=True)),
                key=attrgetter("time", "rank"),
            )
            for number, (batch, n) in enumerate(zip(waiting, ready, strict=True)):
                waiting[number] = batch[n:] or (await anext(streams[number], _NOTHING) if batch else batch)


async def _raw(
    points: RunPoints, database: str, environment: str, after: float, end: float
) -> AsyncGenerator[list[_Timed]]:
    """The points of a database, without those that buckets stand for."""
    span = Span(database, "by_timestamp", (environment,), 0.0)
    async with aclosing(points.reader.pages(span, after, end, first_rows=MOST_ROWS)) as pages:
        async for rows, _ in pages:
            for part in slices(rows):
                found = map(exported_point, part)
                kept = [
                    _Timed(point.timestamp, _rank_of(point), point)
                    for point in found
                    if after < point.timestamp and not is_rolled_up(point, points.raw_from)
                ]
                if kept:
                    yield kept


async def _rolled_up(
    points: RunPoints, series: Sequence[Series], after: float, end: float
) -> AsyncGenerator[list[_Timed]]:
    """The begins and ends of buckets, a day at a time."""
    names = [RollupSeries(*one.key) for one in series if one.key[1] in RETIRED]
    at = float(span_of(WIDTH_S, after))
    while at < end:
        until = at + _SPAN_S
        found: list[_Timed] = []
        for name in names:
            for document in await points.reader.rollups(name, WIDTH_S, at, min(until, end)):
                for bucket in _buckets(document):
                    if bucket.start < end:
                        edges = (_Timed(bucket.start, 1, bucket), _Timed(bucket.end, 0, bucket))
                        found += [edge for edge in edges if edge.time > after]
        found.sort(key=attrgetter("time", "rank"))
        if found:
            yield found
        at = until


def _buckets(document: Rollup) -> Iterator[Bucket]:
    columns = zip(
        document.at, document.min, document.mean, document.max, document.last, document.last_at,
        document.count, strict=True,
    )  # fmt: skip
    for number, low, mean, high, last, last_at, count in columns:
        start = float(document.start + number * document.width)
        yield Bucket(
            document.category, document.variable, start, start + document.width,
            low, mean, high, last, last_at, count,
        )  # fmt: skip


WIDTH_S: Final = 300
"""The width of the rollups that stand for retired points."""

_CATEGORIES: Final = ("measured", "desired", "commanded", "quality", "event")


class PointsRetiredError(StoreError):
    """Points were deleted while they were read: reading again gives all."""


async def retired_until(reader: SourceReader) -> float:
    """The UNIX time before which points may have been deleted, so that rollups stand for them."""
    states = [await reader.rollup_state(name) for name in (reader.source.points, reader.source.events)]
    return float(max((state.sealed_until for state in states if state is not None), default=0))


async def check_unmoved(reader: SourceReader, known: float, start: float) -> None:
    """Raise `PointsRetiredError` if points from `start` on were deleted since `known` was the time above."""
    now = await retired_until(reader)
    if now > max(known, start):
        raise PointsRetiredError("old points of the run were deleted while they were read; try again")


async def series_of(reader: SourceReader, environment: str) -> list[Series]:
    """All series of an environment, without their newest points, also those with rollups only."""
    found: list[Series] = []
    for category in _CATEGORIES:
        database = reader.source.database_of(category)
        names = {*await reader.variables(database, environment, category)}
        if reader.source.rollups and category in RETIRED:
            names |= {*await reader.rolled_up(environment, category)}
        found += [Series((environment, category, name), {}, database) for name in sorted(names)]
    return found


def is_rolled_up(point: ExportedPoint, until: float) -> bool:
    """Whether a bucket before `until` stands for a point; readings by hand are kept."""
    return point.timestamp < until and point.kind in RETIRED and not point.is_manual


class CountedUse(msgspec.Struct, frozen=True):
    """The counters of an output, which began at `since` (UNIX seconds); None for what is not counted."""

    variable: str
    since: float
    cycles: int
    on_s: float
    energy_kwh: float | None = None
    volume_l: float | None = None


def with_counted(figures: RunFigures, start: Any, end: Any) -> RunFigures:
    """The figures with times, starts and use of outputs from the counters at the start and end of the run.

    Both are the counters by output, as the record of the run has them. Outputs without counters at both,
    or whose counters began anew, keep what their commands say. Days get their part of what was counted as
    their commands say, so that they add up to it.
    """
    outputs = {one.variable: one for one in figures.outputs}
    for variable, used in _used(start, end).items():
        if variable in outputs or used.on_s:
            outputs[variable] = _counted(outputs.get(variable) or _unknown(variable, len(figures.days)), used)
    return msgspec.structs.replace(figures, outputs=[one for _, one in sorted(outputs.items())])


def _used(start: Any, end: Any) -> dict[str, CountedUse]:
    """What was counted between both, by variable, of all its outputs."""
    first, last = (msgspec.convert(each or {}, dict[str, CountedUse]) for each in (start, end))
    pairs = [(first.get(name), counters) for name, counters in last.items()]
    found: dict[str, list[tuple[CountedUse, CountedUse]]] = {one.variable: [] for one in last.values()}
    for before, after in pairs:
        if before is None or (before.since, before.variable) != (after.since, after.variable):
            found.pop(after.variable, None)
        elif after.variable in found:
            found[after.variable].append((before, after))
    return {variable: _difference(both) for variable, both in found.items()}


def _difference(pairs: Sequence[tuple[CountedUse, CountedUse]]) -> CountedUse:
    def of(member: str) -> Any:
        """None if it is not known of one."""
        values = [(getattr(before, member), getattr(after, member)) for before, after in pairs]
        known = [after - before for before, after in values if before is not None and after is not None]
        return sum(known) if len(known) == len(values) else None

    counted = {member: of(member) for member in ("cycles", "on_s", "energy_kwh", "volume_l")}
    return msgspec.structs.replace(pairs[0][1], **counted)


def _counted(one: OutputFigures, used: CountedUse) -> OutputFigures:
    litres = None if used.volume_l is None else short(used.volume_l)
    is_gas = litres is not None and one.variable == VALVE
    days = None if one.days_litres is None or litres is None else _by_day(litres, one.days_litres)
    return msgspec.structs.replace(
        one,
        on_s=round(used.on_s, 3),
        starts=used.cycles,
        days_on_s=[round(each, 3) for each in _by_day(used.on_s, one.days_on_s)],
        days_starts=one.days_starts and [round(each) for each in _by_day(used.cycles, one.days_starts, 0)],
        days_litres=days and [short(each) for each in days],
        litres=litres,
        grams=short((litres or 0.0) * GRAMS_PER_LITRE) if is_gas else None,
        energy_kwh=None if used.energy_kwh is None else short(used.energy_kwh),
        is_counted=True,
    )


def _by_day(total: float, days: Sequence[float], places: int = 9) -> list[float]:
    """What was counted, by days, in proportion to these; the single day of a run has all of it."""
    whole = sum(days)
    if not whole:
        return [total] if len(days) == 1 else [*days]
    ends = [round(total * sum(days[: n + 1]) / whole, places) for n in range(len(days))]
    return [end - before for before, end in zip([0.0, *ends], ends, strict=False)]


def _unknown(variable: str, days: int) -> OutputFigures:
    """An output without commands of its own, such as a channel of the lamp."""
    known = VARIABLES.get(variable)
    none = [0.0] * days
    return OutputFigures(variable, known.unit if known else "", 0.0, 0.0, None, None, none, none, None)


def ratings_of(chamber: Chamber, bus: Bus) -> dict[str, Rating]:
    """What all outputs of a variable consume together at full level, pumps by their calibrations."""
    in_force = {each["name"]: each["flow_ml_min"] for each in counted_outputs(bus, chamber.environment)}
    by_variable: dict[str, list[Rated]] = {}
    for rated in rated_outputs(chamber):
        by_variable.setdefault(rated.variable, []).append(rated)
    ratings = {}
    for variable, outputs in by_variable.items():
        watts = [each.power_w for each in outputs]
        flows = [in_force.get(each.name, each.flow_ml_min) for each in outputs]
        ratings[variable] = Rating(_sum(watts), _sum(flows, 0.001))
    return ratings


def _sum(values: Sequence[float | None], factor: float = 1.0) -> float | None:
    """None if one is not known."""
    known = [value * factor for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
