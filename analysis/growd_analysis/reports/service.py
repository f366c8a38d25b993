"""Makes figures, reports and comparisons of runs for the API, one at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

from growd.bus.errors import BusyError
from growd.store.errors import StoreError
from growd_analysis.figures.run_figures import (
    PointsRetiredError,
    RunProgress,
    end_of,
    kept_figures,
    with_counted,
)
from growd_analysis.reports.comparison import comparison
from growd_analysis.reports.language import Language
from growd_analysis.reports.reading import RunReading, camera_shots
from growd_analysis.reports.report import report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import tzinfo
    from pathlib import Path

    from growd.store.couch import Document
    from growd.store.history.history import History
    from growd_analysis.figures.figures import RunFigures
    from growd_analysis.figures.run_figures import FigurePoints
    from growd_analysis.reports.reading import PhotoReader
    from growd_analysis.runs.archive import RunArchive

LIMIT_S: Final = 60.0
"""How long a request may take, in real seconds."""

MOST_WAITING: Final = 4
_SETTLED_S: Final = 900.0  # points come in order up to this age, as a rule
_MOST_KEPT: Final = 6


class ReportTimeoutError(StoreError):
    """A request took too long."""


@dataclass(eq=False)
class RunReports:
    """Reports of the runs in `archive`. Every call raises `StoreError` and `BusError`.

    `points` gives the points of an environment, `ship` is entered while they are read and sends waiting ones,
    `photo` reads photos of notes, `data` is the data folder with those of cameras, `time` is UNIX time. What
    was read of runs without kept figures stays in memory, so a request that took too long goes on there, and
    the report of a long run is soon there again.
    """

    archive: RunArchive
    history: History
    points: Callable[[str], Awaitable[FigurePoints]]
    _: KW_ONLY
    ship: Callable[[], AbstractAsyncContextManager[None]]
    photo: PhotoReader
    data: Path
    time: Callable[[], float]
    zone: tzinfo | None
    limit_s: float = LIMIT_S

    def __post_init__(self) -> None:
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._progress: OrderedDict[str, RunProgress] = OrderedDict()

    async def figures(self, run_id: str) -> RunFigures:
        """The figures of a run, those it keeps or new ones."""
        async with self._working():
            return await self._figures(await self.archive.find(run_id))

    async def report(self, run_id: str, language: str) -> bytes:
        """The report of a run as HTML."""
        async with self._working():
            run = await self.archive.find(run_id)
            reading = RunReading(run, await self._figures(run), self.history)
            now = self.time()
            described = await self.archive.describe(run, now)
            span = reading.environment, reading.figures.start, reading.figures.end
            described |= await self.history.events(*span)
            shots = await asyncio.to_thread(camera_shots, self.data, reading)
            words = Language(language, self.zone)
            return await report(reading, described, self.photo, words, now=now, shots=shots)

    async def comparison(self, run_ids: Sequence[str], language: str) -> bytes:
        """A comparison of runs as HTML."""
        async with self._working():
            readings = []
            for run_id in run_ids:
                run = await self.archive.find(run_id)
                readings.append(RunReading(run, await self._figures(run), self.history))
            return await comparison(readings, Language(language, self.zone), now=self.time())

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        """One at a time, and a few that wait."""
        if self._waiting > MOST_WAITING:
            raise BusyError("reports", MOST_WAITING)
        self._waiting += 1
        try:
            async with asyncio.timeout(self.limit_s), self._turn:
                yield
        except TimeoutError:
            sentence = f"it was not made within {self.limit_s:g} s; the same request goes on there"
            raise ReportTimeoutError(sentence) from None
        finally:
            self._waiting -= 1

    async def _figures(self, run: Document) -> RunFigures:
        return kept_figures(run) or await self._new_figures(run)

    async def _new_figures(self, run: Document) -> RunFigures:
        points, ratings, counters = await self.points(str(run["environment"]))
        if run.get("ended") is not None:
            counters = run.get("counters_at_end") or {}
        key = f"{run['_id']} {len(run.get('revisions') or ())}"  # figures need the recipes from the start
        progress = self._progress.pop(key, None) or RunProgress(run, points, self.zone, ratings)
        self._progress[key] = progress
        while len(self._progress) > _MOST_KEPT:
            self._progress.popitem(last=False)
        async with self.ship():
            now = self.time()
            end = end_of(run, now)
            try:
                if end < now - _SETTLED_S:
                    await progress.read(points, end)
                    return with_counted(progress.copied().figures(), run.get("counters"), counters)
                await progress.read(points, max(float(run["started"]), end - _SETTLED_S))
            except PointsRetiredError:
                del self._progress[key]
                raise
            newest = progress.copied()
            await newest.read(points, end)
            return with_counted(newest.figures(), run.get("counters"), counters)
