"""The part of a running daemon that answers CSV exports faster than the database does."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from growd.runtime.event_loop import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from aiohttp import web

    from growd.parts import Surroundings
    from growd.proxy.gateway import Gateway
    from growd_analysis.points.csv_export import Building


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Answer the exports from the databases of points for the body."""
    database, names = around.database, around.database.names
    building = None if database.is_embedded else database.index_build
    add_exports(around.gateway, (names.points, names.events), around.present().http.name, building)
    yield
    around.gateway.answer = None


def add_exports(
    gateway: Gateway, databases: Sequence[str], design: str, building: Building | None = None
) -> None:
    """Answer the list `csv` of this design document in these databases."""
    lists = tuple(f"/{database}/_design/{design}/_list/csv/" for database in databases)

    async def answer(request: web.BaseRequest) -> web.StreamResponse | None:
        if request.method != "GET" or not request.raw_path.startswith(lists):
            return None
        await load("growd_analysis.points.csv_export")
        from growd_analysis.points.csv_export import Exports  # noqa: PLC0415  only exports need it

        return await Exports(gateway, building).answer(request)

    gateway.answer = answer
