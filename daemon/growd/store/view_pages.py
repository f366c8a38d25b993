"""Reads a view of the database in small answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from growd.store.couch import Couch, Document


async def pages(
    couch: Couch, database: str, design: str, view: str, limit: int, **query: Any
) -> AsyncGenerator[list[Document]]:
    """The rows of a view, in pages of at most `limit` (2 or more).

    A page begins at the last row of the page before. That row may be deleted meanwhile, and `skip` would
    leave out another one then.
    """
    last = ""
    while True:
        rows = await couch.view(database, design, view, limit=limit, **query)
        new = rows[1:] if rows and rows[0]["id"] == last else rows
        if new:
            yield new
        if len(rows) < limit:
            return
        last = rows[-1]["id"]
        query |= {"startkey": rows[-1]["key"], "startkey_docid": last}


async def keys_below(
    couch: Couch, database: str, design: str, prefix: Sequence[str]
) -> AsyncGenerator[list[str]]:
    """The keys of `by_variable`, cut after the member that follows `prefix`: an environment, or a variable.

    A small request for each, since a reduced view may read all rows.
    """
    place: list[Any] = [*prefix]
    end = [*prefix, {}]  # an object follows all texts
    while rows := await couch.view(
        database, design, "by_variable", reduce=False, limit=1, startkey=place, endkey=end
    ):
        key = rows[0]["key"][: len(prefix) + 1]
        yield key
        place = [*key, {}]
