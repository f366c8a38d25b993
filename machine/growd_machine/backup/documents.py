"""Reads whole databases: every document with its revisions, page by page, and what changed meanwhile.

`_all_docs` gives the documents that exist, `_changes` from a sequence before it what was written since. Both
together are the state of the database at the end of the reading. Tombstones come only from the changes, so
documents that were deleted before are left out. Each document has the form of a replication: `_rev` and, from
the second revision on, `_revisions`; all leaves of a conflict follow one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd.store.errors import CouchAnswerTooLargeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from growd.store.couch import Couch, Document

MOST_ROWS: Final = 1_000
"""Documents in one answer; fewer while documents are large."""


_HISTORIES: Final = 100  # revisions in one request


class DocumentPage(NamedTuple):
    """Documents that were read together, and the id or the sequence to resume behind.

    Where that has not moved, more documents of the same answer follow.
    """

    documents: list[Document]
    place: str


class DocumentReader:
    """Reads one database. Every call raises `CouchError`."""

    def __init__(self, couch: Couch, database: str) -> None:
        self._couch = couch
        self._database = database
        self._rows = MOST_ROWS

    async def sequence(self) -> str:
        """Where the changes end now."""
        return str((await self._couch.changes(self._database, "now", 1))["last_seq"])

    async def documents(self, after: str = "") -> AsyncGenerator[DocumentPage]:
        """All documents that exist, in the order of their ids, behind the id `after`."""
        is_last = False
        while not is_last:
            asked = self._rows
            start = {"startkey": after} if after else {}
            try:
                rows = await self._couch.all_docs(
                    self._database, include_docs=True, conflicts=True, limit=asked + 1, **start
                )
            except CouchAnswerTooLargeError:
                self._ask_for_fewer()
                continue
            is_last = len(rows) <= asked
            found = [row["doc"] for row in rows if row["id"] != after and row.get("doc")]
            async for documents in self._revisions(_leaves(found)):
                yield DocumentPage(documents, after)
            if rows:
                after = rows[-1]["id"]
            yield DocumentPage([document for document in found if _is_simple(document)], after)
            self._rows = min(MOST_ROWS, 2 * asked)

    async def changes(self, since: str) -> AsyncGenerator[DocumentPage]:
        """The documents that were written or deleted after the sequence `since` and before this call."""
        left: int | None = None
        while left is None or left > 0:
            answer = await self._couch.changes(self._database, since, MOST_ROWS, all_leaves=True)
            rows: list[dict[str, Any]] = answer["results"]
            left = (len(rows) + int(answer.get("pending", 0)) if left is None else left) - len(rows)
            revisions = [(row["id"], change["rev"]) for row in rows for change in row["changes"]]
            async for documents in self._revisions(revisions):
                yield DocumentPage(documents, since)
            since = str(answer["last_seq"])
            yield DocumentPage([], since)
            if not rows:
                return

    async def _revisions(self, revisions: Sequence[tuple[str, str]]) -> AsyncGenerator[list[Document]]:
        """These revisions, without those that were removed meanwhile: the changes have newer ones."""
        parts = [revisions[start : start + _HISTORIES] for start in range(0, len(revisions), _HISTORIES)]
        while parts:
            part = parts.pop(0)
            try:
                yield await self._couch.bulk_get(self._database, part)
            except CouchAnswerTooLargeError:
                if len(part) == 1:
                    raise
                parts[:0] = [part[: len(part) // 2], part[len(part) // 2 :]]

    def _ask_for_fewer(self) -> None:
        if self._rows == 1:
            raise CouchAnswerTooLargeError(f"a document in {self._database} is too large to be read")
        self._rows = max(1, self._rows // 8)


def _leaves(documents: list[Document]) -> list[tuple[str, str]]:
    """The leaves of those documents of which `_all_docs` leaves out histories or losing leaves."""
    others = (document for document in documents if not _is_simple(document))
    return [(each["_id"], rev) for each in others for rev in (each["_rev"], *each.get("_conflicts", ()))]


def _is_simple(document: Document) -> bool:
    """Whether its revision is the first, and has no rival."""
    return str(document["_rev"]).startswith("1-") and "_conflicts" not in document
