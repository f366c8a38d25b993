"""The figures and reports of runs, made from the configured database with growd's own login."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from growd.config import chambers_of
from growd.runs.archive import RunArchive
from growd.runs.circumstances import counters_of, flows_of
from growd.runs.figure_keeper import FigureKeeper
from growd.runs.figures import Rating
from growd.runs.reports.service import FigurePoints, RunReports
from growd.runs.run_figures import RunPoints, run_figures
from growd.runs.run_points import retired_until
from growd.store.exporting.source import CONNECT_S, SILENCE_S, SourceReader
from growd.wiring.actuators import rated_outputs
from growd.wiring.history import point_source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber, Config
    from growd.control.wear import Rated
    from growd.runs.reports.reading import ReadPhoto
    from growd.store.couch import Document
    from growd.store.database import Database
    from growd.store.history.history import History
    from growd.store.local import LocalStore
    from growd.wiring.store import Storage


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
    async with _session() as session:

        async def make(document: Document) -> dict[str, Any]:
            points, ratings = await _figure_points(
                present(), bus, document["environment"], session, database=database, storage=storage
            )
            figures = await run_figures(document, points, now=bus.clock.time(), zone=zone, ratings=ratings)
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
    measured = {chamber.environment: chamber.known for chamber in chambers_of(config)}
    names = database.names
    return RunArchive(database.couch, names, config.http.name, lambda name: measured.get(name, ()))


@contextlib.asynccontextmanager
async def run_reports(
    config: Config, bus: Bus, *, archive: RunArchive, history: History, database: Database, storage: Storage
) -> AsyncIterator[RunReports]:
    """Reports of the runs in the archive."""
    async with _session() as session:

        async def points(environment: str) -> FigurePoints:
            found = await _figure_points(
                config, bus, environment, session, database=database, storage=storage
            )
            return FigurePoints(*found, counters_of(bus, environment))

        yield RunReports(
            archive,
            history,
            points,
            ship=storage.shipper.reading,
            photo=partial(_photo, database),
            time=bus.clock.time,
            zone=await asyncio.to_thread(config.environment.zone),
        )


def _session() -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    return aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())


async def _figure_points(
    config: Config,
    bus: Bus,
    environment: str,
    session: aiohttp.ClientSession,
    *,
    database: Database,
    storage: Storage,
) -> tuple[RunPoints, dict[str, Rating]]:
    """Where the points of an environment are, and the ratings of its outputs."""
    source = point_source(config, database)
    reader = SourceReader(session, source)
    points = RunPoints(reader, source, storage.holds_s, await retired_until(reader, source))
    found = (chamber for chamber in chambers_of(config) if chamber.environment == environment)
    return points, next((ratings_of(chamber, bus) for chamber in found), {})


def ratings_of(chamber: Chamber, bus: Bus) -> dict[str, Rating]:
    """What all outputs of a variable consume together at full level, pumps by their calibrations."""
    in_force = flows_of(bus, chamber.environment)
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


async def _photo(database: Database, note_id: str, name: str, most: int) -> ReadPhoto | None:
    """A photo of a note of at most so many bytes; None if there is none of this name."""
    from growd.runs.reports.reading import PHOTO_TYPES, ReadPhoto  # noqa: PLC0415  only reports need it

    couch, events = database.couch, database.names.events
    note = await couch.get(events, note_id) or {}
    about = (note.get("_attachments") or {}).get(name) or {}
    if about.get("content_type") not in PHOTO_TYPES:
        return None
    size = int(about["length"])
    if size > most:
        return ReadPhoto(about["content_type"], size, None)
    pieces = [piece async for piece in couch.attachment(events, note_id, note["_rev"], name)]
    return ReadPhoto(about["content_type"], size, b"".join(pieces))
