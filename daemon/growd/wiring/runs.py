"""The figures of runs, made from the configured database with growd's own login."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec

from growd.config import chambers_of
from growd.runs.archive import RunArchive
from growd.runs.figure_keeper import FigureKeeper
from growd.runs.run_figures import RunPoints, run_figures
from growd.store.exporting.source import CONNECT_S, SILENCE_S, SourceReader
from growd.wiring.history import point_source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Config
    from growd.store.couch import Document
    from growd.store.database import Database
    from growd.store.local import LocalStore
    from growd.wiring.store import Storage

_STATES: Final = ("_local/growd-points", "_local/growd-events")


@contextlib.asynccontextmanager
async def figure_keeper(
    present: Callable[[], Config],
    bus: Bus,
    *,
    local: LocalStore,
    database: Database,
    storage: Storage,
    zone: tzinfo | None,
) -> AsyncIterator[FigureKeeper]:
    """Makes the figures of ended runs. `present` returns the configuration in force."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def make(document: Document) -> dict[str, Any]:
            source = point_source(present(), database)
            points = RunPoints(
                SourceReader(session, source),
                source,
                storage.holds_s,
                database.names.rollups,
                await raw_from(database),
            )
            chamber = present().chambers().get(document["environment"])
            flow = None if chamber is None else chamber.interlock.valve_flow_l_min
            figures = await run_figures(document, points, now=bus.clock.time(), zone=zone, flow_l_min=flow)
            return msgspec.json.decode(msgspec.json.encode(figures), type=dict[str, Any])

        async def is_delivered(time: float) -> bool:
            oldest = await storage.outbox.oldest_at()
            if oldest is None or oldest > time:
                return True
            storage.shipper.ship_now()
            return False

        keeper = FigureKeeper(
            local,
            database.couch,
            bus.clock,
            database=database.names.runs,
            make=make,
            is_delivered=is_delivered,
        )
        database.when_up(keeper.look_now)
        yield keeper


def run_archive(config: Config, database: Database) -> RunArchive:
    """The runs of all environments, for the API."""
    measured = {chamber.environment: chamber.measured for chamber in chambers_of(config)}
    names = database.names
    return RunArchive(database.couch, names, config.http.name, lambda name: measured.get(name, ()))


async def raw_from(database: Database) -> float:
    """The UNIX time before which points may have been retired, so that rollups stand for them.

    Raises `CouchError`.
    """
    states = [await database.couch.get(database.names.rollups, name) for name in _STATES]
    return float(max((state.get("sealed_until", 0) for state in states if state), default=0))
