"""Imports documents of openag_brain: converts them, writes those that are new, and counts the others.

Retention concerns old points: it would delete them soon, or has deleted the same ones before.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import counted
from growd.store.errors import CouchRefusedError, StoreError
from growd.store.rollups.document import rollup_id, rollup_of, span_of
from growd.store.rollups.rolled import is_retired_once_sealed, rolled_point
from growd_analysis.openag.forms import OddDocumentError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from typing import BinaryIO

    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch, Document
    from growd.store.rollups.document import RollupSeries
    from growd_analysis.openag.forms import Conversion
    from growd_analysis.openag.sources import SourcePage

COUNTED: Final = "sealed rollups have values of these five minutes: the point may be counted in them already"
"""Why a point is not imported."""

_WIDTH: Final = 300
_DAY_S: Final = 86_400

_Bucket = tuple[str, int]
"""The `_id` of the five-minute document, and the start of the bucket."""


class OldPointsError(StoreError):
    """Points would be imported and soon deleted; the message says what to do."""


class OldPoints:
    """What to do with points that are older than `keep_days` (0: none are deleted) at the UNIX time `now`.

    They are refused unless `are_accepted`. `number` counts them. `rollups` is the database of rollups.
    """

    def __init__(
        self, couch: Couch, rollups: str, *, keep_days: float, now: float, are_accepted: bool
    ) -> None:
        self.number = 0
        self.keep_days = keep_days
        self._couch = couch
        self._rollups = rollups
        self._before = now - keep_days * _DAY_S if keep_days else 0.0
        self._are_accepted = are_accepted
        self._has_rollups: bool | None = None
        self._own: set[_Bucket] = set()  # of the last documents

    def check(self, documents: Sequence[Document]) -> None:
        """Count the old ones. Raises `OldPointsError` if there are some and they are not accepted."""
        times = [each["timestamp"] for each in documents if _may_be_deleted(each)]
        old = [time for time in times if time < self._before]
        self.number += len(old)
        if old and not self._are_accepted:
            raise OldPointsError(
                f"{counted(len(old), 'point')} of {len(documents)} that are next, the first of "
                f"{datetime.fromtimestamp(min(old), UTC):%Y-%m-%d}, are older than {self.keep_days:g} days: "
                "growd would soon delete them and keep only their rollups; none that old was imported. "
                "[retention] keep_days = 0 in growd's configuration keeps all points; "
                "--old-points=rollups imports them for their rollups"
            )

    async def counted_already(self, documents: Sequence[Document]) -> set[str]:
        """The ids of points that a sealed rollup may have: a second time, they would be added to it again.

        A rollup knows no ids. So a bucket with values stands for all points of its five minutes, except where
        the last documents of this import had points of it.
        """
        buckets = {each["_id"]: _bucket(each) for each in documents if _may_be_deleted(each)}
        sealed = await self._sealed({document_id for document_id, _ in buckets.values()})
        found = {each for each, bucket in buckets.items() if bucket in sealed and bucket not in self._own}
        self._own = {bucket for each, bucket in buckets.items() if each not in found}
        return found

    async def _sealed(self, ids: set[str]) -> set[_Bucket]:
        """The buckets that have values in these documents, as far as they are sealed."""
        if self._has_rollups is None:
            self._has_rollups = await self._couch.exists(self._rollups)
        if not ids or not self._has_rollups:
            return set()
        documents = await self._couch.documents(self._rollups, sorted(ids))
        rollups = [rollup for each in documents.values() if (rollup := rollup_of(each)) is not None]
        return {(one.id, one.start + at * _WIDTH) for one in rollups if one.is_sealed for at in one.at}


def _may_be_deleted(document: Document) -> bool:
    return is_retired_once_sealed(document, is_event=False)


def _bucket(document: dict[str, Any]) -> _Bucket:
    series: RollupSeries
    series, time, _ = rolled_point(document, is_event=False)  # type: ignore[misc]  # it may be deleted
    return rollup_id(series, _WIDTH, span_of(_WIDTH, time)), int(time // _WIDTH) * _WIDTH


_ABOUT_CONTENT: Final = frozenset({400, 413})


class Import:
    """One import into a database server. `new` and `present` count by kind, `rejected` by reason.

    Rejected documents are written into `file`, one in each line with its reason. In a dry run nothing is
    written into the database.
    """

    def __init__(
        self,
        couch: Couch,
        names: Databases,
        conversion: Conversion,
        old: OldPoints,
        file: BinaryIO | None = None,
        *,
        is_dry: bool = False,
        report: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.new: Counter[str] = Counter()
        self.present: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.designs = 0
        self._couch = couch
        self._databases = {
            "point": names.points, "recipe": names.recipes, "environment": names.environment
        }  # fmt: skip
        self._conversion = conversion
        self._old = old
        self._file = file
        self._is_dry = is_dry
        self._report = report
        self._read = 0

    async def run(self, pages: AsyncGenerator[SourcePage]) -> None:
        """Import all pages. Raises `CouchError`, `OldPointsError` and OSError."""
        async for page in pages:
            converted = []
            for document in page.documents:
                try:
                    one = self._conversion.converted(document, page.database)
                except OddDocumentError as error:
                    await self._reject(str(error), document)
                    continue
                if one is None:
                    self.designs += 1
                else:
                    converted.append(one)
            for kind in self._databases:
                await self._write(kind, [one.document for one in converted if one.kind == kind])
            self._read += len(page.documents)
            self._report(self._read)

    async def _write(self, kind: str, documents: list[dict[str, Any]]) -> None:
        """Write those of one kind; the same `_id` twice is the same document."""
        database = self._databases[kind]
        unique = {document["_id"]: document for document in documents}
        self.present[kind] += len(documents) - len(unique)
        if not unique:
            return
        present = await self._couch.documents(database, [*unique])
        new = [document for document_id, document in unique.items() if document_id not in present]
        self.present[kind] += len(present)
        if kind == "point":
            new = await self._countable(new)
        if self._is_dry or not new:
            self.new[kind] += len(new)
            return
        for document_id, outcome in (await self._outcomes(database, new)).items():
            if "error" not in outcome:
                self.new[kind] += 1
            elif outcome["error"] == "conflict":
                self.present[kind] += 1
            else:
                reason = f"refused by the database: {outcome.get('reason', outcome['error'])}"
                await self._reject(reason, unique[document_id])

    async def _countable(self, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that no rollup may have already."""
        self._old.check(points)
        found = await self._old.counted_already(points)
        for document in points:
            if document["_id"] in found:
                await self._reject(COUNTED, document)
        return [document for document in points if document["_id"] not in found]

    async def _outcomes(self, database: str, documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The outcome of each document, also where one of them makes the server refuse all."""
        try:
            return await self._couch.bulk_docs(database, documents)
        except CouchRefusedError as error:
            if error.status not in _ABOUT_CONTENT:
                raise
            if len(documents) == 1:
                return {documents[0]["_id"]: {"error": error.error, "reason": error.reason or str(error)}}
            middle = len(documents) // 2
            first = await self._outcomes(database, documents[:middle])
            return first | await self._outcomes(database, documents[middle:])

    async def _reject(self, reason: str, document: Any) -> None:
        self.rejected[reason] += 1
        if self._file is not None:
            line = json.dumps({"reason": reason, "document": document}).encode() + b"\n"
            await asyncio.to_thread(self._file.write, line)
