"""A history over a database of its own, and points in it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from yarl import URL

from growd.bus.errors import UnknownNameError
from growd.store.bootstrap import bootstrap
from growd.store.history.cache import BucketCache
from growd.store.history.history import History
from growd.store.history.query import HistoryQuery
from growd.store.reading.source import PointSource
from growd.store.rollups.rolled import is_retired_once_sealed
from support.couch_client import FILES
from support.own_databases import own_databases
from support.rollups import ENVIRONMENT, RollupBench


@dataclass
class StoredPast(RollupBench):
    """Databases with points, and the history that reads them; `shipped` counts the readers."""

    source: PointSource | None = None
    history: History | None = None
    shipped: list[str] = field(default_factory=list)
    now: float = 0.0

    async def retire(self, until):
        """Delete the points before `until` that rollups stand for, as the retention does."""
        await self.feed.seal(until)
        for database in (self.names.points, self.names.events):
            rows = await self.couch.all_docs(database, include_docs=True)
            retired = [row["doc"] for row in rows if _is_retired(row["doc"], until)]
            for start in range(0, len(retired), 100):
                deleted = [{**document, "_deleted": True} for document in retired[start : start + 100]]
                outcomes = await self.couch.bulk_docs(database, deleted)
                if self.source.lists_series:  # CouchDB: nothing of them stays in its changes
                    await self.couch.purge(database, {each: [one["rev"]] for each, one in outcomes.items()})
        for feed in (self.feed.points, self.feed.events):
            await self.feed.note_retired(feed, until)

    async def ask(self, start, end, *variables, **options):
        """The answer of the history, as a client gets it."""
        options = {"environment": ENVIRONMENT, "points": 300} | options
        query = HistoryQuery(variables=variables, start=start, end=end, **options)
        async with self.history.answering(query) as answer:
            text = msgspec.json.encode(answer)
        return msgspec.json.decode(text)


def _is_retired(document, until):
    is_event = "is_desired" not in document
    return document.get("timestamp", until) < until and is_retired_once_sealed(document, is_event=is_event)


@asynccontextmanager
async def stored_past(server, most=300_000, owner=None, **options):
    """New databases, deleted at the end."""
    shipped = []

    @asynccontextmanager
    async def ship():
        shipped.append("begin")
        yield
        shipped.append("end")

    def known(environment):
        if environment != ENVIRONMENT:
            raise UnknownNameError("environment", environment)
        return {"custom"}

    async with own_databases(server, owner) as (couch, names):
        source = PointSource(
            URL(server.url),
            names.points,
            names.events,
            "svc",
            server.auth,
            rollups=names.rollups,
            lists_series=not server.is_embedded,
        )
        await bootstrap(couch, FILES, databases=names)
        async with History(lambda: source, ship, known, cache=BucketCache(most), **options) as history:
            past = StoredPast(couch, names, source=source, history=history, shipped=shipped)
            history.now = lambda: past.now
            yield past
