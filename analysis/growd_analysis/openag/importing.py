"""Imports documents of openag_brain: converts them, writes those that are new, and counts the others."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from growd.store.errors import CouchRefusedError
from growd_analysis.openag.forms import OddDocumentError
from growd_analysis.openag.old_points import COUNTED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from typing import BinaryIO

    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch
    from growd_analysis.openag.forms import Conversion
    from growd_analysis.openag.old_points import OldPoints
    from growd_analysis.openag.sources import SourcePage

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
