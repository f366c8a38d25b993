"""The part of a running daemon that has the archive of runs: their list, figures, reports and comparisons."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from growd.config import chambers_of
from growd.recipes.circumstances import counters_of
from growd.runtime.event_loop import load
from growd.runtime.supervisor import Supervisor
from growd_analysis.figures.keeper import FigureKeeper
from growd_analysis.runs.archive import RunArchive
from growd_analysis.runs.calls import RunCalls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import tzinfo

    from growd.parts import Surroundings
    from growd.store.couch import Document
    from growd.store.database import Database
    from growd_analysis.figures.run_figures import FigurePoints
    from growd_analysis.reports.reading import ReadPhoto
    from growd_analysis.reports.service import RunReports


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Offer the calls about runs, and keep the figures of ended ones in their documents."""
    config, bus, database = around.present(), around.bus, around.database
    zone = await asyncio.to_thread(config.environment.zone)
    measured = {chamber.environment: chamber.known for chamber in chambers_of(config)}
    archive = RunArchive(
        database.couch, database.names, config.http.name, lambda name: measured.get(name, ())
    )
    made: RunReports | None = None

    async def reports() -> RunReports:
        nonlocal made
        await load("growd_analysis.reports.service")
        from growd_analysis.reports.service import RunReports  # noqa: PLC0415  only who asks needs it

        made = made or RunReports(
            archive,
            around.history,
            partial(_points, around),
            ship=around.shipper.reading,
            photo=partial(_photo, database),
            data=around.data,
            time=bus.clock.time,
            zone=zone,
        )
        return made

    around.api.offer(RunCalls(archive, around.history, reports).operations)
    keeper = FigureKeeper(
        around.local,
        database.couch,
        bus.clock,
        database=database.names.runs,
        make=partial(_figures, around, zone),
        is_delivered=around.shipper.has_sent,
    )
    database.when_up(keeper.work.retry_now)
    around.run_documents.written = keeper.work.wake
    async with Supervisor(bus.clock, bus.liveness) as supervisor:
        supervisor.start("figures of runs", keeper.work.run)
        yield


async def _points(around: Surroundings, environment: str) -> FigurePoints:
    """The points of an environment, the ratings of its outputs, and their counters."""
    await load(
        "growd_analysis.figures.run_figures", "growd_analysis.figures.run_figures"
    )  # only runs have figures
    from growd_analysis.figures.run_figures import (  # noqa: PLC0415
        FigurePoints,
        RunPoints,
        ratings_of,
    )

    points = await RunPoints.of(around.history)
    found = (each for each in chambers_of(around.present()) if each.environment == environment)
    ratings = next((ratings_of(chamber, around.bus) for chamber in found), {})
    return FigurePoints(points, ratings, counters_of(around.bus, environment))


async def _figures(around: Surroundings, zone: tzinfo | None, document: Document) -> dict[str, Any]:
    """The figures of a run as JSON."""
    points, ratings, _ = await _points(around, document["environment"])
    from growd_analysis.figures.run_figures import run_figures  # noqa: PLC0415  loaded with the points

    figures = await run_figures(document, points, now=around.bus.clock.time(), zone=zone, ratings=ratings)
    return msgspec.json.decode(msgspec.json.encode(figures), type=dict[str, Any])


async def _photo(database: Database, note_id: str, name: str, most: int) -> ReadPhoto | None:
    """A photo of a note of at most so many bytes; None if there is none of this name."""
    from growd_analysis.reports.reading import PHOTO_TYPES, ReadPhoto, data_address  # noqa: PLC0415  only reports need it

    couch, events = database.couch, database.names.events
    note = await couch.get(events, note_id) or {}
    about = (note.get("_attachments") or {}).get(name) or {}
    if about.get("content_type") not in PHOTO_TYPES:
        return None
    size = int(about["length"])
    if size > most:
        return ReadPhoto(name, size, "")
    pieces = [piece async for piece in couch.attachment(events, note_id, note["_rev"], name)]
    return ReadPhoto(name, size, data_address(about["content_type"], b"".join(pieces)))
