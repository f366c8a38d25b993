"""Answers what the points and events of an environment were in a range of time."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
import msgspec

from growd.bus.errors import BusyError, InvalidValueError, UnknownNameError
from growd.store.errors import StoreError
from growd.store.exporting.source import CONNECT_S, SourceReader
from growd.store.history.buckets import Buckets
from growd.store.history.cache import BucketCache, SeriesKey
from growd.store.history.coverage import FINEST
from growd.store.history.grid import Grid
from growd.store.history.known_series import CATEGORIES, KnownSeries, database_of, known_series, together
from growd.store.history.reading import RememberedBuckets
from growd.store.history.reading_events import breaks_of, events_of
from growd.store.history.series_reader import SeriesReader
from growd.variables import VARIABLES, similar_variable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from growd.store.exporting.source import PointSource
    from growd.store.history.coverage import Coverage
    from growd.store.index_builds import IndexBuild

LIMIT_S: Final = 60.0
"""How long a request may take, in real seconds. What it has read by then is remembered."""

MOST_REQUESTS: Final = 16  # under way; the largest answers take 30 MB each
MOST_VARIABLES: Final = 50
MOST_BUCKETS: Final = 20_000  # variables times points
HOLDS_S: Final = 660.0
SERIES_S: Final = 10.0
"""For how many real seconds the list of the series of an environment is used again."""

_CONNECTIONS: Final = 8
_AT_ONCE: Final = 12  # series of one request
_NO_BREAKS: Final[dict[str, list[float]]] = {"breaks": [], "resumes": []}
_EMPTY: Final = {"before": None, **Buckets(1).columns()}


class HistoryTimeoutError(StoreError):
    """A request took too long."""


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """What to answer: times in UNIX seconds, at most `points` buckets; no variables mean all."""

    environment: str
    variables: tuple[str, ...]
    start: float
    end: float
    points: int
    with_series: bool = True
    with_events: bool = True


class History:
    """Answers queries from the database that `source` names.

    `ship` is entered around each answer, and sends waiting points. `known` gives the variables that have
    topics in an environment, and raises `UnknownNameError` for an unknown environment. `building` gives the
    progress of the index of a database, `holds_s` the seconds that a measurement of a variable holds, `now`
    the UNIX time. `reader` reads points that are not in a database server.
    """

    def __init__(
        self,
        source: Callable[[], PointSource],
        ship: Callable[[], AbstractAsyncContextManager[None]],
        known: Callable[[str], Collection[str]],
        *,
        building: Callable[[str], Awaitable[IndexBuild | None]] | None = None,
        holds_s: Callable[[str], float] = lambda _: HOLDS_S,
        now: Callable[[], float] = time.time,
        cache: BucketCache | None = None,
        limit_s: float = LIMIT_S,
        reader: SourceReader | None = None,
    ) -> None:
        self.buckets = RememberedBuckets(cache or BucketCache())
        self._source = source
        self._ship = ship
        self._known = known
        self._building = building
        self._holds_s = holds_s
        self.now = now
        self._limit = limit_s
        self._reader = reader
        self._requests: Counter[str | None] = Counter()  # under way, by client
        self._session: aiohttp.ClientSession | None = None
        self._series: dict[str, KnownSeries] = {}

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
        jar = aiohttp.DummyCookieJar()
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def check_environment(self, environment: str) -> None:
        """Raises `UnknownNameError`."""
        self._known(environment)

    @asynccontextmanager
    async def answering(
        self, query: HistoryQuery, client: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """The answer of the API; series are JSON already. Send it in the body.

        So answers that clients read slowly count as requests under way, which bounds their memory. One
        `client` may have a quarter of them; None has no limit of its own. Raises `StoreError` and `BusError`.
        """
        self._check(query)
        if self._requests.total() >= MOST_REQUESTS:
            raise BusyError("requests for the history", MOST_REQUESTS)
        if client is not None and self._requests[client] >= MOST_REQUESTS // 4:
            raise BusyError(f"requests of {client} for the history", MOST_REQUESTS // 4)
        self._requests[client] += 1
        try:
            yield await self._answer_in_time(query)
        finally:
            self._requests[client] -= 1
            if not self._requests[client]:
                del self._requests[client]

    async def events(
        self, environment: str, start: float, end: float, client: str | None = None
    ) -> dict[str, Any]:
        """The newest events between two UNIX times, without notes: `events` and `events_truncated`.

        None of an environment that is not configured any more. Raises as `answering`.
        """
        query = HistoryQuery(environment, (), start, max(end, start) + 1, 2, with_series=False)
        try:
            async with self.answering(query, client) as answer:
                found = [event for event in answer["events"] if event["kind"] != "note"]
                inside = [event for event in found if start <= event["time"] <= end]
                return {"events": inside, "events_truncated": answer["events_truncated"]}
        except UnknownNameError:
            return {"events": [], "events_truncated": False}

    async def _answer_in_time(self, query: HistoryQuery) -> dict[str, Any]:
        assert self._session is not None  # noqa: S101  it is entered
        try:
            async with asyncio.timeout(self._limit), self._ship():
                source = self._source()
                reader = self._reader or SourceReader(self._session, source, batches=True)
                return await self._answer(query, source, reader)
        except TimeoutError:
            raise HistoryTimeoutError(await self._why_late()) from None

    def _check(self, query: HistoryQuery) -> None:
        """Refuse unknown environments, and more than one request may ask for."""
        self.check_environment(query.environment)
        _check_size(query, len(query.variables))

    async def _why_late(self) -> str:
        """Why a request took too long: the index is being built, or there are too many points."""
        build = await self._building(self._source().points) if self._building is not None else None
        if build is not None:
            return f"{build}. Try again later."
        return f"the history was not read within {self._limit:g} s; the same request continues there"

    async def _answer(self, query: HistoryQuery, source: PointSource, reader: SourceReader) -> dict[str, Any]:
        databases = (source.points, source.events)
        while True:
            covered = await together([self.buckets.follow(reader, name) for name in databases])
            coverage = dict(zip(databases, covered, strict=True))
            answer = await self._answer_from(query, source, reader, coverage)
            states = await together([reader.rollup_state(name) for name in databases])
            sealed = [0 if state is None else state.sealed_until for state in states]
            if all(now <= one.sealed_until for now, one in zip(sealed, covered, strict=True)):
                return answer
            # the retirement of a day began meanwhile: points may have been deleted before they were read

    async def _answer_from(
        self,
        query: HistoryQuery,
        source: PointSource,
        reader: SourceReader,
        coverage: Mapping[str, Coverage],
    ) -> dict[str, Any]:
        retired_until = max(one.sealed_until for one in coverage.values())
        known = await self._find_series(reader, source, query, retired_until)
        narrowest = FINEST if query.start < retired_until else 1
        grid = Grid.covering(query.start, query.end, query.points, narrowest)
        variables = query.variables or tuple(sorted(known.variables()))
        variables = variables if query.with_series else ()
        _check_size(query, len(variables))
        broken = [variable for variable in variables if known.has("quality", variable)]
        wanted = [
            SeriesKey(database_of(source, category), query.environment, category, variable)
            for category, variable in known.of(variables)
        ]
        (events, is_truncated), breaks, *series = await together(
            [
                self._events(reader, source, query, known, grid),
                breaks_of(reader, source, query.environment, broken, grid),
                *self._all_series(reader, wanted, grid, coverage),
            ]
        )
        by_name = {(key.variable, key.category): columns for key, columns in series}
        return {
            "environment": query.environment,
            "start": grid.start,
            "end": grid.end,
            "bucket_s": grid.width,
            "retired_until": retired_until,
            "series": [
                {
                    "variable": variable,
                    "unit": VARIABLES[variable].unit if variable in VARIABLES else "",
                    "holds_s": self._holds_s(variable),
                    **breaks.get(variable, _NO_BREAKS),
                    **{category: by_name.get((variable, category), _EMPTY) for category in CATEGORIES},
                }
                for variable in variables
            ],
            "events": events,
            "events_truncated": is_truncated,
        }

    async def _events(
        self, reader: SourceReader, source: PointSource, query: HistoryQuery, known: KnownSeries, grid: Grid
    ) -> tuple[list[dict[str, Any]], bool]:
        if not query.with_events:
            return [], False
        return await events_of(reader, source, query.environment, known, grid)

    def _all_series(
        self,
        reader: SourceReader,
        wanted: Sequence[SeriesKey],
        grid: Grid,
        coverage: Mapping[str, Coverage],
    ) -> list[Coroutine[None, None, tuple[SeriesKey, msgspec.Raw]]]:
        """Readings of series, as JSON, some of them at a time."""
        places, now = asyncio.Semaphore(_AT_ONCE), self.now()

        async def read(key: SeriesKey) -> tuple[SeriesKey, msgspec.Raw]:
            async with places:
                covered = coverage[key.database]
                before = await SeriesReader(reader, key, covered).before(grid.start)
                buckets = await self.buckets.read(reader, key, grid, covered, now)
                columns = msgspec.json.encode({"before": before, **buckets.columns()})
                await asyncio.sleep(0)  # all series at once would hold up other tasks
            return key, msgspec.Raw(columns)

        return [read(key) for key in wanted]

    async def _find_series(
        self, reader: SourceReader, source: PointSource, query: HistoryQuery, retired_until: int
    ) -> KnownSeries:
        """The series of an environment, at most `SERIES_S` old; looked up again for an unknown name."""
        known = self._series.get(query.environment)
        names = {*query.variables} - {*VARIABLES, *self._known(query.environment)}
        is_old = known is None or time.monotonic() - known.at >= SERIES_S
        if known is None or is_old or known.retired_until != retired_until or not names <= known.variables():
            known = await known_series(reader, source, query.environment, retired_until)
            self._series[query.environment] = known
        self._check_names(query, known)
        return known

    def _check_names(self, query: HistoryQuery, known: KnownSeries) -> None:
        stored = known.variables()
        names = {*stored, *self._known(query.environment), *VARIABLES}
        for name in query.variables:
            if name not in names:
                alike = similar_variable(name) or next(iter(difflib.get_close_matches(name, names, 1)), "")
                there = ", ".join(sorted(stored)) or "none yet"
                expected = f"a variable such as {alike}" if alike else f"a variable with points: {there}"
                raise InvalidValueError("variable", expected, name)


def _check_size(query: HistoryQuery, number: int) -> None:
    """Refuse more buckets than one answer may have, for a number of variables."""
    if number > MOST_VARIABLES:
        raise InvalidValueError("variable", f"at most {MOST_VARIABLES} by name", number)
    if query.points * number > MOST_BUCKETS:
        expected = f"at most {MOST_BUCKETS // number} for {number} variables"
        raise InvalidValueError("points", expected, query.points)
