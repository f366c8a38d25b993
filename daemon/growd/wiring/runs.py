"""The figures of runs, made from the configured database with growd's own login."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from growd.config import chambers_of
from growd.runs.archive import RunArchive
from growd.runs.circumstances import counters_of, flows_of
from growd.runs.figure_keeper import FigureKeeper
from growd.runtime.event_loop import load
from growd.wiring.actuators import rated_outputs
from growd.wiring.database import point_source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from growd.bus import Bus
    from growd.config import Chamber
    from growd.control.wear import Rated
    from growd.runs.figures import Rating
    from growd.runs.run_figures import FigurePoints
    from growd.store.couch import Document
    from growd.wiring.store import Core


@contextlib.asynccontextmanager
async def figure_points(core: Core) -> AsyncIterator[Callable[[str], Awaitable[FigurePoints]]]:
    """Yields what returns the points of an environment, the ratings of its outputs, and their counters."""
    async with contextlib.AsyncExitStack() as stack:
        session: aiohttp.ClientSession | None = None

        async def read(environment: str) -> FigurePoints:
            await load("growd.runs.run_figures")  # only runs have figures
            from growd.runs.run_figures import FigurePoints, RunPoints  # noqa: PLC0415
            from growd.runs.run_points import retired_until  # noqa: PLC0415
            from growd.store.exporting.source import CONNECT_S, SILENCE_S, SourceReader  # noqa: PLC0415

            nonlocal session
            if session is None:
                timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
                session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
                stack.push_async_callback(session.close)
            source = point_source(core.config, core.database)
            reader = SourceReader(session, source)
            points = RunPoints(reader, source, core.storage.holds_s, await retired_until(reader, source))
            found = (each for each in chambers_of(core.config) if each.environment == environment)
            ratings = next((ratings_of(chamber, core.bus) for chamber in found), {})
            return FigurePoints(points, ratings, counters_of(core.bus, environment))

        yield read


def figure_keeper(core: Core, points: Callable[[str], Awaitable[FigurePoints]]) -> FigureKeeper:
    """Makes the figures of ended runs, from what `points` returns for an environment."""
    clock, database, storage = core.bus.clock, core.database, core.storage

    async def make(document: Document) -> dict[str, Any]:
        found = await points(document["environment"])
        from growd.runs.run_figures import run_figures  # noqa: PLC0415  loaded with the points

        figures = await run_figures(
            document, found.points, now=clock.time(), zone=core.zone, ratings=found.ratings
        )
        return msgspec.json.decode(msgspec.json.encode(figures), type=dict[str, Any])

    async def is_delivered(time: float) -> bool:
        oldest = await storage.outbox.oldest_at()
        if oldest is None or oldest > time:
            return True
        storage.shipper.ship_now()
        return False

    keeper = FigureKeeper(
        core.local,
        database.couch,
        clock,
        database=database.names.runs,
        make=make,
        is_delivered=is_delivered,
    )
    database.when_up(keeper.work.retry_now)
    return keeper


def run_archive(core: Core) -> RunArchive:
    """The runs of all environments, for the API."""
    measured = {chamber.environment: chamber.known for chamber in chambers_of(core.config)}
    couch, names = core.database.couch, core.database.names
    return RunArchive(couch, names, core.config.http.name, lambda name: measured.get(name, ()))


def ratings_of(chamber: Chamber, bus: Bus) -> dict[str, Rating]:
    """What all outputs of a variable consume together at full level, pumps by their calibrations."""
    from growd.runs.figures import Rating  # noqa: PLC0415  loaded with the points

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
