"""Reads points and rollups from the database, and writes rollups."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

from growd.store.errors import CouchConflictError, RollupError
from growd.store.rollups.arithmetic import RollupBuilder, coarser, with_late_points
from growd.store.rollups.document import WIDTHS, rollup_id, rollup_of, series_of, series_text, span_of
from growd.store.rollups.rolled import rolled_point
from growd.store.view_pages import pages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from growd.store.couch import Couch, Document
    from growd.store.rollups.document import Rollup, RollupSeries
    from growd.store.rollups.rolled import RolledPoint

HOUR_WIDTH: Final = min(WIDTHS)
"""The width of the buckets that are made of points."""

FINER: Final = dict(zip(sorted(WIDTHS)[1:], sorted(WIDTHS), strict=False))
"""The width that a width is made of."""

_ROWS: Final = 500  # of a view in one answer: some milliseconds to decode
_DOCUMENTS: Final = 100


class RollupWriter:
    """Computes the documents of the series in one database. Every call raises `StoreError`.

    `points` and `rollups` are the names of databases, `design` is that of the design document.
    """

    def __init__(self, couch: Couch, *, points: str, rollups: str, design: str, is_event: bool) -> None:
        self.couch = couch
        self.points = points
        self.rollups = rollups
        self.is_event = is_event
        self._design = design

    async def compute(self, width: int, spans: Sequence[tuple[RollupSeries, int]]) -> None:
        """Compute the documents of these spans, and write those that have changed.

        Sealed documents stay as they are, and a document without points is deleted.
        """
        ids = [rollup_id(series, width, start) for series, start in spans]
        known = await self.couch.documents(self.rollups, ids)
        changed: list[Document] = []
        for series, group in groupby(spans, key=lambda span: span[0]):
            for run in _runs([start for _, start in group], WIDTHS[width]):
                found = await self._computed(series, width, run)
                for start in run:
                    present = known.get(rollup_id(series, width, start))
                    changed += _change(present, found.get(start))
        await self.write(changed)

    async def with_late(self, points: Iterable[RolledPoint]) -> list[Document]:
        """The sealed documents with these points added, not written yet."""
        added: dict[tuple[RollupSeries, int], list[tuple[float, float | None]]] = {}
        for series, time, value in points:
            added.setdefault((series, span_of(HOUR_WIDTH, time)), []).append((time, value))
        ids = [rollup_id(series, HOUR_WIDTH, start) for series, start in added]
        known = await self.couch.documents(self.rollups, ids)
        documents = []
        for one, ((series, start), values) in zip(ids, added.items(), strict=True):
            rollup = with_late_points(series, start, rollup_of(known.get(one)), values)
            if rollup is not None:
                documents.append(rollup.document())
        return documents

    async def lacking(self, points: Iterable[RolledPoint]) -> set[str]:
        """The ids of the hours of these points whose sealed documents are missing or count too few."""
        numbers: Counter[str] = Counter()
        for series, time, value in points:
            numbers[rollup_id(series, HOUR_WIDTH, span_of(HOUR_WIDTH, time))] += value is not None
        known = await self.couch.documents(self.rollups, list(numbers))
        found = {one: rollup_of(known.get(one)) for one in numbers}
        return {
            one
            for one, rollup in found.items()
            if rollup is None or not rollup.is_sealed or sum(rollup.count) < numbers[one]
        }

    async def write(self, documents: Sequence[Document], *, again: bool = False) -> None:
        """Write documents; with `again` they may have been written before, and a conflict is no error."""
        if not documents:
            return
        outcomes = await self.couch.bulk_docs(self.rollups, documents)
        for document_id, outcome in outcomes.items():
            if outcome.get("error") == "conflict":
                if not again:
                    raise CouchConflictError(document_id)
            elif "error" in outcome:
                reason = outcome.get("reason") or outcome["error"]
                raise RollupError(f"the database refused the rollup {document_id}: {reason}")

    async def series(self) -> list[RollupSeries]:
        """The series of this database that have rollups, each found by a small request."""
        categories = ("commanded",) if self.is_event else ("measured", "desired")
        found: list[RollupSeries] = []
        after = ""
        while rows := await self.couch.all_docs(self.rollups, startkey=after, limit=1):
            one = series_of(rows[0]["id"])
            if one is not None and rows[0]["id"].startswith(series_text(one) + "/"):
                found += [one] if one.category in categories else []
                after = series_text(one) + "0"  # "0" follows "/"
            else:
                after = rows[0]["id"] + "!"
        return found

    async def seal(self, start: int, end: int) -> None:
        """Mark the documents of all hours from `start` to before `end` as sealed."""
        for series in await self.series():
            async for rows in self._rollups_of(series, HOUR_WIDTH, start, end):
                await self.write([row | {"is_sealed": True} for row in rows if not row.get("is_sealed")])

    async def sealed_until(self) -> int:
        """The end of the last sealed hour, found by few requests; 0 if none is sealed."""
        found = [await self._sealed_until(series) for series in await self.series()]
        return max(found, default=0)

    async def _computed(self, series: RollupSeries, width: int, run: Sequence[int]) -> dict[int, Rollup]:
        """The documents of consecutive spans by their start, without those that have no point."""
        end = run[-1] + WIDTHS[width]
        if width == HOUR_WIDTH:
            return await self._from_points(series, run[0], end)
        found: dict[int, Rollup] = {}
        for start in run:
            finer = FINER[width]
            pages = self._rollups_of(series, finer, start, start + WIDTHS[width])
            parts = [part for rows in [rows async for rows in pages] for part in map(rollup_of, rows) if part]
            rollup = coarser(series, width, start, parts)
            if rollup is not None:
                found[start] = rollup
        return found

    async def _from_points(self, series: RollupSeries, start: int, end: int) -> dict[int, Rollup]:
        found: dict[int, Rollup] = {}
        builder: RollupBuilder | None = None
        async for rows in self._points_of(series, start, end):
            for point in rows:
                hour = span_of(HOUR_WIDTH, point.time)
                if builder is None or builder.start != hour:
                    _finish(builder, found)
                    builder = RollupBuilder(series, HOUR_WIDTH, hour)
                builder.add(point.time, point.value)
            await asyncio.sleep(0)  # so that other tasks run
        _finish(builder, found)
        return found

    async def _points_of(
        self, series: RollupSeries, start: int, end: int
    ) -> AsyncGenerator[list[RolledPoint]]:
        """The points from `start` to before `end` in the order of time, page by page."""
        found = pages(
            self.couch,
            self.points,
            self._design,
            "by_variable",
            _ROWS,
            startkey=[*series, start],
            endkey=[*series, end],
            reduce=False,
            inclusive_end=False,
        )
        async for rows in found:
            points = (rolled_point(row["value"], is_event=self.is_event) for row in rows)
            # another name may be the same text for the collation of the view
            yield [point for point in points if point is not None and point.series == series]

    async def _rollups_of(
        self, series: RollupSeries, width: int, start: int, end: int
    ) -> AsyncGenerator[list[Document]]:
        """The documents of a width from `start` to before `end`, page by page."""
        after, last = rollup_id(series, width, start), rollup_id(series, width, end)
        while True:
            rows = await self.couch.all_docs(
                self.rollups,
                include_docs=True,
                startkey=after,
                endkey=last,
                inclusive_end=False,
                limit=_DOCUMENTS,
            )
            yield [row["doc"] for row in rows if row.get("doc")]
            if len(rows) < _DOCUMENTS:
                return
            after = rows[-1]["id"] + "!"

    async def _sealed_until(self, series: RollupSeries) -> int:
        """By bisection, since all hours before a sealed one are sealed."""
        span = WIDTHS[HOUR_WIDTH]
        low, high = 0, 10**11 // span  # hours: the first has no sealed one before it, the last is not sealed
        end = rollup_id(series, HOUR_WIDTH, high * span)
        while low < high:
            middle = (low + high) // 2
            rows = await self.couch.all_docs(
                self.rollups,
                include_docs=True,
                startkey=rollup_id(series, HOUR_WIDTH, middle * span),
                endkey=end,
                limit=1,
            )
            rollup = rollup_of(rows[0].get("doc")) if rows else None
            if rollup is not None and rollup.is_sealed:
                low = rollup.start // span + 1
            else:
                high = middle
        return low * span


def _finish(builder: RollupBuilder | None, found: dict[int, Rollup]) -> None:
    if builder is not None and (rollup := builder.rollup()) is not None:
        found[builder.start] = rollup


def _runs(starts: Sequence[int], span: int) -> list[list[int]]:
    """Consecutive spans together."""
    runs: list[list[int]] = []
    for start in starts:
        if runs and runs[-1][-1] + span == start:
            runs[-1].append(start)
        else:
            runs.append([start])
    return runs


def _change(present: Document | None, rollup: Rollup | None) -> list[Document]:
    """What to write so that the database has this document; nothing if the present one is sealed."""
    if present is not None and present.get("is_sealed"):
        return []
    revision = {"_rev": present["_rev"]} if present is not None else {}
    if rollup is None:
        return [{"_id": present["_id"], **revision, "_deleted": True}] if present is not None else []
    document = rollup.document() | revision
    return [] if document == present else [document]
