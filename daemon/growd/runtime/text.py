"""Times, durations and tables as text, for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import tzinfo

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SYMBOLS: Final = {
    "degC d": "°C d", "degC": "°C", "percent": "%", "umol/m2/s": "µmol/m²/s", "mol/m2": "mol/m²",
    "g/m3": "g/m³",
}  # fmt: skip
_WITH_UNIT: Final = re.compile(rf"(?<=\d )({'|'.join(_SYMBOLS)})(?![\w/])")
_MOST_PLACES: Final = 3


def most_like(name: str, known: Iterable[str], least: float = 0.6) -> list[str]:
    """The known name that is most like this one; empty if none is at least so much alike, from 0 to 1."""
    from difflib import get_close_matches  # noqa: PLC0415  few names are misspelt

    return get_close_matches(name, known, 1, least)


def duration(seconds: float) -> str:
    """A duration in its two largest units: "1 h 5 min"."""
    left = max(0, round(seconds))
    parts = []
    for length, unit in _UNITS:
        if left >= length:
            parts.append(f"{left // length} {unit}")
            left %= length
    return " ".join(parts[:2]) or "0 s"


def told_apart(value: float, limit: float, precision: int = 0) -> tuple[str, str]:
    """Two numbers with the same decimals, as many as tell them apart.

    At least those that the value has, up to `precision`, and that the limit has, up to three.
    """
    for places in range(8):
        texts = f"{value:z.{places}f}", f"{limit:z.{places}f}"
        is_precise = places >= precision or float(texts[0]) == round(value, precision)
        is_exact = places >= _MOST_PLACES or float(texts[1]) == limit
        if is_precise and is_exact and (texts[0] != texts[1] or value == limit):
            break
    return texts


def symbol(unit: str) -> str:
    """A unit as people write it: "°C" for degC."""
    return _SYMBOLS.get(unit, unit)


def in_symbols(text: str) -> str:
    """A sentence with its values in such units."""
    return _WITH_UNIT.sub(lambda found: _SYMBOLS[found[1]], text)


def moment(seconds: float, zone: tzinfo | None = None) -> str:
    """A UNIX time in a time zone, None that of the machine: "2026-11-24 06:00", with seconds if there are."""
    try:
        local = datetime.fromtimestamp(round(seconds), zone)
    except (OverflowError, OSError, ValueError):  # beyond the years 1 to 9999
        return f"{seconds:g} s"
    return local.strftime("%Y-%m-%d %H:%M:%S" if local.second else "%Y-%m-%d %H:%M")


def unix_time(text: str) -> float:
    """UNIX seconds, given as such or in ISO 8601, UTC by default. Raises `ValueError`; may be NaN."""
    try:
        return float(text)
    except ValueError:
        given = datetime.fromisoformat(text)
        return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()


def aligned(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()
) -> Iterator[list[str]]:
    """The headings and the rows with cells padded to columns; those of `right` are right-aligned.

    Cells are escaped (`on_one_line`).
    """
    rows = [[on_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        yield [
            cell.rjust(width) if heading in right else cell.ljust(width)
            for heading, cell, width in zip(headings, row, widths, strict=True)
        ]


def columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()
) -> list[str]:
    """The same, as lines."""
    return ["  ".join(cells).rstrip() for cells in aligned(headings, rows, right=right)]


def on_one_line(text: str) -> str:
    """The text with all characters that are not printable escaped."""
    return printable(text).replace("\n", "\\n")


def printable(text: str) -> str:
    """The text with characters that are not printable escaped, except line breaks."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign == "\n" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def excerpt(text: str, most: int) -> str:
    """The text, without its middle if it has more than `most` characters."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} ... {len(text) - most} characters ... {text[-(most // 2) :]}"


def one_line(text: str, most: int = 1_000) -> str:
    """An excerpt of a text from outside, in one line and printable."""
    return printable(" ".join(excerpt(text, most).split()))


def words_of(error: BaseException) -> str:
    """The kind of an error and what it says, in one line; an error of foreign code may fail at that too."""
    kind = type(error).__name__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001  see above
        words = ""
    return one_line(f"{kind}: {words}" if words else kind)


def is_host(name: str) -> bool:
    """Whether each label has 1 to 63 characters (RFC 1035)."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def without_login(url: str) -> str:
    """A URL, valid or not, without a login."""
    return re.sub(r"^([^/]*//)?[^/]*@", r"\1", url)
