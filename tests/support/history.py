"""A history over a database of its own, and points in it."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import aiohttp
import msgspec
from yarl import URL

from growd.bus.errors import UnknownNameError
from growd.store.bootstrap import Databases, bootstrap
from growd.store.couch import Couch
from growd.store.exporting.source import PointSource
from growd.store.history.cache import BucketCache
from growd.store.history.history import History, HistoryQuery
from growd.store.points import PointMaker
from support.couch_client import FILES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.database import DatabaseServer

ENVIRONMENT = "environment_1"


@dataclass
class StoredPast:
    """Databases with points, and the history that reads them; `shipped` counts the readers."""

    couch: Couch
    names: Databases
    source: PointSource
    history: History
    shipped: list[str] = field(default_factory=list)
    maker: PointMaker = field(default_factory=lambda: PointMaker("0123456789ab"))

    async def store(self, *points: dict[str, Any]) -> None:
        """Store points, given by the arguments of `PointMaker.make`."""
        by_database: dict[str, list[dict[str, Any]]] = {}
        for point in points:
            made = self.maker.make(point.pop("environment", ENVIRONMENT), **point)
            name = self.names.events if made.category else self.names.points
            by_database.setdefault(name, []).append(made.document())
        for name, documents in by_database.items():
            await self.store_documents(name, documents)

    async def store_documents(self, database: str, documents: list[dict[str, Any]]) -> None:
        outcomes = await self.couch.bulk_docs(database, documents)
        assert not [one for one in outcomes.values() if "error" in one], outcomes

    async def ask(self, start: float, end: float, *variables: str, **options: Any) -> dict[str, Any]:
        """The answer of the history, as a client gets it."""
        options = {"environment": ENVIRONMENT, "points": 300} | options
        query = HistoryQuery(variables=variables, start=start, end=end, **options)
        async with self.history.answering(query) as answer:
            text = msgspec.json.encode(answer)
        return cast("dict[str, Any]", msgspec.json.decode(text))


@asynccontextmanager
async def stored_past(
    server: DatabaseServer, most: int = 300_000, owner: tuple[str, str] | None = None, **options: Any
) -> AsyncIterator[StoredPast]:
    """New databases, deleted at the end."""
    names = Databases.prefixed(f"test-{uuid4().hex}-")
    source = PointSource(URL(server.url), names.points, names.events, "svc", server.auth)
    shipped: list[str] = []

    @asynccontextmanager
    async def ship() -> AsyncIterator[None]:
        shipped.append("begin")
        yield
        shipped.append("end")

    def known(environment: str) -> set[str]:
        if environment != ENVIRONMENT:
            raise UnknownNameError("environment", environment)
        return {"custom"}

    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        History(lambda: source, ship, known, cache=BucketCache(most), **options) as history,
    ):
        couch = Couch(session, server.url, credentials=owner or server.auth)
        await bootstrap(couch, FILES, databases=names)
        try:
            yield StoredPast(couch, names, source, history, shipped)
        finally:
            for name in names.names_by_folder().values():
                with suppress(Exception):
                    await couch.delete(name)


def measured(variable: str, value: Any, timestamp: float, **options: Any) -> dict[str, Any]:
    """The arguments of a measured point."""
    return {"variable": variable, "value": value, "timestamp": timestamp, **options}
