"""The table that the list function `csv` writes, made from pages of its view, in the same bytes."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

import msgspec

from growd.store.errors import PageError
from growd.store.reading.pages import ViewPages, ViewRange, slices
from growd_analysis.points.csv_format import USUAL_COLUMNS, CsvFormat

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from growd.store.reading.pages import FetchPage
    from growd_analysis.points.csv_format import Row

_REDUCED: Final = "by_variable"  # the view that has a reduce
_VIEWS: Final = frozenset({_REDUCED, "by_timestamp", "all_vars"})
_EVERY_POINT: Final = "4"  # the group level at which each key is a group
_PIECE: Final = 32 * 1024  # bytes
_FLAG: Final = re.compile("true|false")
_NUMBER: Final = re.compile("[0-9]{1,9}")
_KEY: Final = re.compile(".+")
_PARAMETERS: Final = {
    "startkey": _KEY,
    "endkey": _KEY,
    "inclusive_end": _FLAG,
    "descending": _FLAG,
    "reduce": _FLAG,
    "group_level": re.compile(_EVERY_POINT),
    "limit": _NUMBER,
    "skip": _NUMBER,
    "cols": _KEY,
    "stale": re.compile("ok|update_after"),
    "update": re.compile("true|false|lazy"),
    "stable": _FLAG,
}
"""The parameters that are understood, and their possible values, as in the address."""

_columns: Final = msgspec.json.Decoder(list[str]).decode


class NewestRows:
    """The newest row of each key, as the reduce of `by_variable` gives it at group_level=4.

    The rows of one key come in the order of their ids, and the greatest id wins: see the function
    `builtin_first_last` in CouchDB's couch_query_servers for `_last`. Shards and the direction of reading
    make no difference there. `skip` and `limit` count keys.
    """

    def __init__(self, *, descending: bool, skip: int = 0, limit: int | None = None) -> None:
        self.done = limit == 0
        self._descending = descending
        self._skip = skip
        self._left = limit
        self._present: Row | None = None

    def take(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that are known to be the newest of their keys."""
        found = []
        present = self._present
        for row in rows:
            is_new = present is None or row.key != present.key
            if is_new and present is not None:
                found.append(present)
            if is_new or not self._descending:
                present = row
        self._present = present
        return self._counted(found)

    def end(self) -> list[Row]:
        """The newest row of the last key."""
        return [] if self._present is None else self._counted([self._present])

    def _counted(self, found: list[Row]) -> list[Row]:
        skipped = min(self._skip, len(found))
        self._skip -= skipped
        found = found[skipped:]
        if self._left is None:
            return found
        found = found[: self._left]
        self._left -= len(found)
        self.done = self._left == 0
        return found


@dataclass(frozen=True, slots=True)
class CsvList:
    """A request to the list function `csv`: the view and its range, and how to write the rows.

    `newest` is set at group_level=4, where one row of each key is written.
    """

    view: str
    view_range: ViewRange
    newest: NewestRows | None
    format: CsvFormat

    async def pieces(self, fetch: FetchPage) -> AsyncGenerator[bytes]:
        """The table in pieces: the first begins with the column names, and comes with the first page.

        Raises `PageError`, and what `fetch` raises.
        """
        made, newest = bytearray(self.format.head), self.newest
        async with aclosing(ViewPages(self.view_range).read(fetch)) as pages:
            async for rows in pages:
                for part in slices(rows):
                    found = self._decoded(part)
                    made += self.format.lines(found if newest is None else newest.take(found))
                    if len(made) >= _PIECE:
                        yield bytes(made)
                        made.clear()
                    await asyncio.sleep(0)  # let other tasks run
                if made:
                    yield bytes(made)
                    made.clear()
                if newest is not None and newest.done:
                    break
        if newest is not None and (last := self.format.lines(newest.end())):
            yield last

    def _decoded(self, part: Sequence[msgspec.Raw]) -> list[Row]:
        try:
            return self.format.rows(part)
        except (ValueError, RecursionError) as error:
            raise PageError(f"a row of the view can't be read: {error}") from None


def parse_csv_list(view: str, query: str) -> CsvList | None:
    """The request for this view with this query string; None if the database has to answer it.

    That is so for other views and reduces, for unknown or repeated parameters, and for values of another form
    than the usual one.
    """
    given = _parameters(query)
    if view not in _VIEWS or given is None:
        return None
    is_grouped = "group_level" in given
    is_reduced = view == _REDUCED and given.get("reduce") != "false"
    if is_grouped != is_reduced or (view != _REDUCED and given.get("reduce") == "true"):
        return None
    columns = _columns_of(given)
    if columns is None:
        return None
    skip = int(given.get("skip", "0"))
    limit = int(given["limit"]) if "limit" in given else None
    descending = given.get("descending") == "true"
    view_range = ViewRange(
        startkey=given.get("startkey", ""),
        rest=tuple(f"{name}={given[name]}" for name in ("endkey", "inclusive_end") if name in given),
        descending=descending,
        skip=0 if is_grouped else skip,
        limit=None if is_grouped else limit,
    )
    newest = NewestRows(descending=descending, skip=skip, limit=limit) if is_grouped else None
    return CsvList(view, view_range, newest, CsvFormat(columns))


def _parameters(query: str) -> dict[str, str] | None:
    """Names and values, still encoded; None if one of them is not understood."""
    given: dict[str, str] = {}
    if ";" in query:  # CouchDB separates parameters there too
        return None
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        form = _PARAMETERS.get(name)
        if form is None or name in given or form.fullmatch(value) is None:
            return None
        given[name] = value
    return given


def _columns_of(given: dict[str, str]) -> list[str] | None:
    """The names of the columns, or None if `cols` is no list of names."""
    if "cols" not in given:
        return list(USUAL_COLUMNS)
    try:
        return _columns(unquote_to_bytes(given["cols"].replace("+", " "))) or None
    except ValueError:
        return None
