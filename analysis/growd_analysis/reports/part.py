"""The part of a running daemon that makes figures, reports and comparisons of runs for the API."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from growd.runtime.event_loop import load
from growd_analysis.reports.calls import ReportCalls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.parts import Surroundings
    from growd.store.database import Database
    from growd_analysis.reports.reading import ReadPhoto
    from growd_analysis.reports.service import RunReports


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Offer the calls about the runs in the archive."""
    zone = await asyncio.to_thread(around.present().environment.zone)
    made: RunReports | None = None

    async def reports() -> RunReports:
        nonlocal made
        await load("growd_analysis.reports.service")
        from growd_analysis.reports.service import RunReports  # noqa: PLC0415  only who asks needs it

        made = made or RunReports(
            around.archive,
            around.history,
            around.figure_points,
            ship=around.shipping,
            photo=partial(_photo, around.database),
            data=around.data,
            time=around.bus.clock.time,
            zone=zone,
        )
        return made

    around.api.offer(ReportCalls(reports).operations)
    yield


async def _photo(database: Database, note_id: str, name: str, most: int) -> ReadPhoto | None:
    """A photo of a note of at most so many bytes; None if there is none of this name."""
    from growd_analysis.reports.reading import PHOTO_TYPES, ReadPhoto  # noqa: PLC0415  only reports need it

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
