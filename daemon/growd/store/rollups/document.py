"""The documents of the rollup database.

A document has the buckets of one series, of one width, in one span of time. It is written when its span is
over, and again when a point of that span comes late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

WIDTHS: Final = {300: 3_600, 3_600: 86_400, 86_400: 2_592_000}
"""The widths of buckets and the span of a document of each, in seconds, aligned to UNIX time."""

RETIRED: Final = ("measured", "commanded")
"""What may be deleted once it is rolled up, but no manual measurement. Everything else is kept."""


class RollupSeries(NamedTuple):
    """One series, as in the keys of `by_variable`."""

    environment: str
    category: str
    variable: str


class Rollup(msgspec.Struct, kw_only=True):
    """The buckets of `width` seconds from `start` (UNIX seconds) that have points, in columns.

    `at` has the number of each bucket in the span. `min`, `mean`, `max` and `count` are those of the numbers;
    a release (null) is no number. `last` is the last value, null for a release, and `last_at` its UNIX time.
    `is_sealed`: the points may be deleted already, so the document is never computed again from them; points
    that come later are added to it.
    """

    id: str = msgspec.field(name="_id")
    rev: str = msgspec.field(name="_rev", default="")
    environment: str
    category: str
    variable: str
    width: int
    start: int
    at: list[int]
    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]
    last: list[float | None]
    last_at: list[float]
    count: list[int]
    is_sealed: bool = False

    def document(self) -> dict[str, Any]:
        """As JSON; `_rev` only if there is one."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        if not self.rev:
            del document["_rev"]
        return document


def rollup_of(document: Mapping[str, Any] | None) -> Rollup | None:
    """The rollup in a document; None for one that growd has not written."""
    try:
        rollup = msgspec.convert(document, Rollup)
    except msgspec.ValidationError:
        return None
    columns = (rollup.min, rollup.mean, rollup.max, rollup.last, rollup.last_at, rollup.count)
    return rollup if all(len(column) == len(rollup.at) for column in columns) else None


def rollup_id(series: RollupSeries, width: int, start: int) -> str:
    """The `_id` of a document. Those of one series and width are in the order of time."""
    return f"{series_text(series)}/{width:05d}/{start:011d}"


def span_of(width: int, time: float) -> int:
    """The start of the span of a document that has the UNIX time `time`."""
    span = WIDTHS[width]
    return int(time // span) * span


def series_text(series: RollupSeries) -> str:
    """The names of a series as ids have them. No id begins with "_", which CouchDB reserves."""
    text = "/".join(quote(name, safe="", errors="surrogatepass") for name in series)
    return f"%5F{text[1:]}" if text.startswith("_") else text


def series_of(text: str) -> RollupSeries | None:
    """The series of an id, or of `series_text`; None for a text that is none."""
    names = [unquote(name, errors="surrogatepass") for name in text.split("/")[:3]]
    return RollupSeries(*names) if len(names) == len(RollupSeries._fields) and all(names) else None
