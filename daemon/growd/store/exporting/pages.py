"""A view read page by page: what to ask for next, and which rows of the answer are new.

No sockets here. Each page begins at the last row of the one before, which is asked for again: if it was
deleted meanwhile, none that follows is left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from growd.store.errors import PageError
from growd.store.exporting.csv_format import stringify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd.store.exporting.csv_format import Row

FIRST_ROWS: Final = 100  # so that the first byte comes soon
MOST_ROWS: Final = 2_000
PAGE_BYTES: Final = 1024 * 1024  # what a page should come to
LARGEST_PAGE: Final = 8 * PAGE_BYTES  # an answer that is longer is asked for again, with fewer rows
SLICE_ROWS: Final = 100  # rows to work on before others have their turn: about a millisecond


class Position(msgspec.Struct, frozen=True):
    """A row of a view: its key, as the database wrote its JSON, and the document that it comes from."""

    key: str
    id: str


class _Page(msgspec.Struct):
    rows: list[msgspec.Raw]


class _Place(msgspec.Struct):
    key: msgspec.Raw
    id: str


_page: Final = msgspec.json.Decoder(_Page).decode
_place: Final = msgspec.json.Decoder(_Place).decode


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows of a view, in the words of its query string.

    `startkey` is percent-encoded JSON, empty for none. `rest` are the other parameters of the range (endkey,
    inclusive_end), as `name=value`.
    """

    startkey: str = ""
    rest: tuple[str, ...] = ()
    descending: bool = False
    skip: int = 0
    limit: int | None = None


class Pages:
    """The way through a selection, on behind the row `after` if there is one; `done` at its end."""

    def __init__(self, selection: Selection, after: Position | None = None) -> None:
        self.position = after
        self.done = selection.limit == 0
        self._selection = selection
        self._left = selection.limit
        self._asked = 0
        self._rows = FIRST_ROWS

    def query(self) -> str:
        """The query string of the next page."""
        selection, position = self._selection, self.position
        new = self._rows if self._left is None else min(self._rows, self._left)
        self._asked = new if position is None else new + 1
        parts = ["reduce=false", f"limit={self._asked}", *selection.rest]
        if selection.descending:
            parts.append("descending=true")
        if position is not None:
            parts += [f"startkey={_quoted(position.key)}", f"startkey_docid={_quoted(position.id)}"]
            return "&".join([*parts, "update=false"])
        if selection.startkey:
            parts.append(f"startkey={selection.startkey}")
        if selection.skip:
            parts.append(f"skip={selection.skip}")
        return "&".join(parts)

    def take(self, answer: bytes) -> list[msgspec.Raw]:
        """The new rows of the answer to `query`, as JSON. `PageError` where it can't be the next page."""
        try:
            rows = _rows(answer)
            is_last = len(rows) < self._asked
            if rows:
                self._rows = min(MOST_ROWS, max(1, PAGE_BYTES * len(rows) // len(answer)))
                new = self._without_last(rows)
                if self._left is not None:  # a row that went meanwhile lets in one too many
                    new = new[: self._left]
                self.position = _position(new[-1] if new else rows[-1])
                rows = new
        except ValueError as error:  # msgspec's are
            raise PageError(f"the database's answer is no page of a view: {error}") from None
        if self._left is not None:
            self._left -= len(rows)
        self.done = is_last or self._left == 0
        return rows

    def ask_for_fewer(self) -> bool:
        """The answer would be too large: let `query` ask for fewer rows. Whether that is possible."""
        had = self._rows
        self._rows = max(1, had // 8)
        return self._rows < had

    def _without_last(self, rows: list[msgspec.Raw]) -> list[msgspec.Raw]:
        """What follows the last row of the page before."""
        last, first = self.position, _position(rows[0])
        if last is None:
            return rows
        if first == last:
            return rows[1:]
        is_before = first.id > last.id if self._selection.descending else first.id < last.id
        if first.key == last.key and is_before:
            raise PageError("the database does not begin a page at the document that it was asked for")
        return rows


class Newest:
    """The newest row of each key, as the reduce of `by_variable` gives it at group_level=4.

    The rows of one key come in the order of their ids, and the greatest id wins: see the function
    `builtin_first_last` in CouchDB's couch_query_servers for `_last`. It does not matter there from which
    shard a row comes, nor in which direction the view is read. `skip` and `limit` count keys.
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
        """The last one."""
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


def slices(rows: Sequence[msgspec.Raw]) -> Iterator[Sequence[msgspec.Raw]]:
    """The rows of a page in parts, between which others may have their turn."""
    return (rows[start : start + SLICE_ROWS] for start in range(0, len(rows), SLICE_ROWS))


def _rows(answer: bytes) -> list[msgspec.Raw]:
    try:
        return _page(answer).rows
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # perhaps for half a surrogate pair, which JSON allows
        rows = msgspec.convert(json.loads(answer), dict[str, Any]).get("rows")
        return [msgspec.Raw(stringify(row).encode()) for row in msgspec.convert(rows, list[dict[str, Any]])]


def _position(row: msgspec.Raw) -> Position:
    try:
        place = _place(row)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # as above
        members = json.loads(bytes(row))
        return Position(stringify(members.get("key")), str(members.get("id")))
    return Position(bytes(place.key).decode(), place.id)


def _quoted(text: str) -> str:
    return quote(text.encode(errors="surrogatepass"), safe="")
