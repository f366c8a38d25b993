"""Answers what the points and events of an environment were in a range of time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp

from growd.bus.errors import BusyError, UnknownNameError
from growd.runtime.event_loop import load
from growd.store.errors import StoreError
from growd.store.history.query import HistoryQuery, check_size

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from growd.store.history.answers import HistoryAnswers
    from growd.store.history.cache import BucketCache
    from growd.store.history.remembered import RememberedBuckets
    from growd.store.index_builds import IndexBuild
    from growd.store.reading.source import PointSource, SourceReader

LIMIT_S: Final = 60.0
"""How long a request may take, in real seconds. What it has read by then is remembered."""

MOST_REQUESTS: Final = 16  # under way; the largest answers take 30 MB each
HOLDS_S: Final = 660.0
_CONNECTIONS: Final = 8


class HistoryTimeoutError(StoreError):
    """A request took too long."""


class History:
    """Answers queries from the database that `source` names.

    `ship` is entered around each answer, sends waiting points, and may end it with TimeoutError. `known`
    gives the variables that have topics in an environment, and raises `UnknownNameError` for an unknown
    environment. `building` gives the progress of the index of a database, `holds_s` the seconds that a
    measurement of a variable holds, `now` the UNIX time. `reader` reads points that are not in a database
    server.
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
        self._cache = cache
        self.source = source
        self._ship = ship
        self._known = known
        self._building = building
        self.holds_s = holds_s
        self.now = now
        self._limit = limit_s
        self._reader = reader
        self._requests: Counter[str | None] = Counter()  # under way, by client
        self._session: aiohttp.ClientSession | None = None

    @cached_property
    def buckets(self) -> RememberedBuckets:
        """The buckets that were read, which are read again only if points came."""
        from growd.store.history.cache import BucketCache  # noqa: PLC0415  loaded by `_answers`
        from growd.store.history.remembered import RememberedBuckets  # noqa: PLC0415

        return RememberedBuckets(self._cache or BucketCache())

    @cached_property
    def _answers(self) -> HistoryAnswers:
        from growd.store.history.answers import HistoryAnswers  # noqa: PLC0415  loaded before its first use

        return HistoryAnswers(self.buckets, self._known, self.holds_s, lambda: self.now())  # noqa: PLW0108  tests set it

    async def __aenter__(self) -> Self:
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
        await load("growd.store.history.answers", "growd.store.history.remembered")
        try:
            async with asyncio.timeout(self._limit), self._ship():
                return await self._answers.answer(query, self.reader())
        except TimeoutError:
            raise HistoryTimeoutError(await self._why_late(self.source().points)) from None

    def reader(self) -> SourceReader:
        """What reads the points. Its module is loaded before. Raises `StoreError` without a database."""
        if self._reader is not None:
            return self._reader
        from growd.store.reading.source import CONNECT_S, SILENCE_S, SourceReader  # noqa: PLC0415  loaded by now

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar)
        return SourceReader(self._session, self.source(), batches=True)

    def _check(self, query: HistoryQuery) -> None:
        """Refuse unknown environments, and more than one request may ask for."""
        self.check_environment(query.environment)
        check_size(query, len(query.variables))

    async def _why_late(self, points: str) -> str:
        """Why a request took too long: the index is being built, or there are too many points."""
        build = await self._building(points) if self._building is not None else None
        if build is not None:
            return f"{build}. Try again later."
        return f"the history was not read within {self._limit:g} s; the same request continues there"
