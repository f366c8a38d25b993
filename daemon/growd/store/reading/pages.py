"""A view read page by page: which query to send next, and which rows of the answer are new.

Each page begins at the last row of the page before, which is asked for again: if that row was deleted
meanwhile, no row behind it is left out.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from growd.store.errors import PageError, PageTooLargeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

    FetchPage = Callable[[str, int | None], Awaitable[bytes]]
    """Gets the view's answer to a query string. `PageTooLargeError` if it has more bytes than given."""

FIRST_ROWS: Final = 100  # so that the first byte comes soon
MOST_ROWS: Final = 2_000
PAGE_BYTES: Final = 1024 * 1024  # the size to aim at
LARGEST_PAGE: Final = 8 * PAGE_BYTES  # a longer answer is asked for again, with fewer rows
SLICE_ROWS: Final = 100  # rows to format before other tasks run: about a millisecond


class RowPosition(msgspec.Struct, frozen=True):
    """A row of a view: its key, as the JSON that the database wrote, and the id of its document."""

    key: str
    id: str


class _Page(msgspec.Struct):
    rows: list[msgspec.Raw]


class _RawPosition(msgspec.Struct):
    key: msgspec.Raw
    id: str


_decode_page: Final = msgspec.json.Decoder(_Page).decode
_decode_position: Final = msgspec.json.Decoder(_RawPosition).decode


class ViewRange(msgspec.Struct, frozen=True):
    """Which rows of a view to read, as parameters of its query string.

    `startkey` is percent-encoded JSON, empty for none. `rest` are the other parameters of the range (endkey,
    inclusive_end), as `name=value`.
    """

    startkey: str = ""
    rest: tuple[str, ...] = ()
    descending: bool = False
    skip: int = 0
    limit: int | None = None


class ViewPages:
    """The way through a range, from behind the row `after` if there is one; `done` at its end."""

    def __init__(
        self, view_range: ViewRange, after: RowPosition | None = None, first_rows: int | None = None
    ) -> None:
        self.position = after  # of the last row that was taken
        self.done = view_range.limit == 0
        self._range = view_range
        self._left = view_range.limit
        self._asked = 0
        self._rows = first_rows or FIRST_ROWS

    def query(self) -> str:
        """The query string of the next page."""
        view_range, position = self._range, self.position
        new = self._rows if self._left is None else min(self._rows, self._left)
        self._asked = new if position is None else new + 1
        parts = ["reduce=false", f"limit={self._asked}", *view_range.rest]
        if view_range.descending:
            parts.append("descending=true")
        if position is not None:
            parts += [f"startkey={_quoted(position.key)}", f"startkey_docid={_quoted(position.id)}"]
            return "&".join([*parts, "update=false"])
        if view_range.startkey:
            parts.append(f"startkey={view_range.startkey}")
        if view_range.skip:
            parts.append(f"skip={view_range.skip}")
        return "&".join(parts)

    def take(self, answer: bytes) -> list[msgspec.Raw]:
        """The new rows of the answer to `query`, as JSON. `PageError` if it can't be the next page."""
        try:
            rows = _rows(answer)
            is_last = len(rows) < self._asked
            if rows:
                self._rows = min(MOST_ROWS, max(1, PAGE_BYTES * len(rows) // len(answer)))
                new = self._without_last(rows)
                if self._left is not None:  # a row that was deleted meanwhile lets in one too many
                    new = new[: self._left]
                self.position = _position(new[-1] if new else rows[-1])
                rows = new
        except ValueError as error:  # the base of msgspec's errors
            raise PageError(f"the database's answer is not a page of a view: {error}") from None
        if self._left is not None:
            self._left -= len(rows)
        self.done = is_last or self._left == 0
        return rows

    def ask_for_fewer(self) -> bool:
        """Let `query` ask for fewer rows, as the answer is too large. False if it asks for one already."""
        had = self._rows
        self._rows = max(1, had // 8)
        return self._rows < had

    async def read(self, fetch: FetchPage) -> AsyncGenerator[list[msgspec.Raw]]:
        """The new rows of each page; the next page is fetched while the caller works on one.

        Raises `PageError`, and what `fetch` raises.
        """
        answer = await self._fetched(fetch)
        while True:
            rows = self.take(answer)
            if self.done:
                yield rows
                return
            following = asyncio.create_task(self._fetched(fetch), name="export: next page")
            try:
                yield rows
                answer = await following
            finally:
                following.cancel()
                await asyncio.wait([following])
                if not following.cancelled():
                    following.exception()  # retrieved, in case the caller has stopped reading

    async def _fetched(self, fetch: FetchPage) -> bytes:
        most: int | None = LARGEST_PAGE
        while True:
            try:
                return await fetch(self.query(), most)
            except PageTooLargeError:
                if most is None:
                    raise
                if not self.ask_for_fewer():
                    most = None

    def _without_last(self, rows: list[msgspec.Raw]) -> list[msgspec.Raw]:
        """The rows behind the last row of the page before."""
        last, first = self.position, _position(rows[0])
        if last is None:
            return rows
        if first == last:
            return rows[1:]
        is_before = first.id > last.id if self._range.descending else first.id < last.id
        if first.key == last.key and is_before:
            raise PageError("the database does not begin a page at the requested document")
        return rows


def slices(rows: Sequence[msgspec.Raw]) -> Iterator[Sequence[msgspec.Raw]]:
    """The rows of a page in parts of `SLICE_ROWS`."""
    return (rows[start : start + SLICE_ROWS] for start in range(0, len(rows), SLICE_ROWS))


def _rows(answer: bytes) -> list[msgspec.Raw]:
    try:
        return _decode_page(answer).rows
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # perhaps for half a surrogate pair, which JSON allows
        rows = msgspec.convert(json.loads(answer), dict[str, Any]).get("rows")
        return [
            msgspec.Raw(_json(row).encode(errors="surrogatepass"))
            for row in msgspec.convert(rows, list[dict[str, Any]])
        ]


def _position(row: msgspec.Raw) -> RowPosition:
    try:
        found = _decode_position(row)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # as above
        members = json.loads(bytes(row))
        return RowPosition(_json(members.get("key")), str(members.get("id")))
    return RowPosition(bytes(found.key).decode(), found.id)


def _json(value: Any) -> str:
    """JSON as the database writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _quoted(text: str) -> str:
    return quote(text.encode(errors="surrogatepass"), safe="")
