"""The query of `history`: variables, a range of time, and how many buckets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from growd.api.operation import Repeated
from growd.bus.errors import InvalidValueError
from growd.bus.fields import Field, Kind
from growd.runtime.text import unix_time
from growd.store.history.query import MOST_VARIABLES, HistoryQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_S: Final = 20 * 366 * 86_400
LATEST: Final = 253_402_300_800  # the year 10000
DEFAULT_S: Final = 86_400.0
_EXPECTED: Final = "UNIX seconds or ISO 8601"
_TIME_DOC: Final = "UNIX seconds or ISO 8601, UTC without a time zone; "

HISTORY_QUERY: Final = (
    Repeated(
        Field("variable", Kind.STRING, min_length=1, max_length=200, doc="without it, all that have points"),
        most=MOST_VARIABLES,
    ),
    Field("start", Kind.JSON, default=None, doc=_TIME_DOC + "default a day before the end"),
    Field("end", Kind.JSON, default=None, doc=_TIME_DOC + "default now"),
    Field("points", Kind.INT64, 2, 5_000, default=300, doc="the most buckets"),
    Field("series", Kind.BOOL, default=True, doc="false: only the events"),
    Field("events", Kind.BOOL, default=True, doc="false: only the series"),
)


def history_query(environment: str, values: Mapping[str, Any], now: float) -> HistoryQuery:
    """The query of a request at the UNIX time `now`. Raises `InvalidValueError`."""
    end = now if values["end"] is None else time_of("end", values["end"])
    start = max(0.0, end - DEFAULT_S) if values["start"] is None else time_of("start", values["start"])
    if start >= end:
        raise InvalidValueError("start", f"a time before the end, {_shown(end)}", _shown(start))
    if end - start > LONGEST_S:
        raise InvalidValueError("start", "at most 20 years before the end", _shown(start))
    variables = tuple(dict.fromkeys(values["variable"]))
    return HistoryQuery(
        environment, variables, start, end, values["points"], values["series"], values["events"]
    )


def time_of(field: str, value: Any) -> float:
    """UNIX seconds from a number or ISO 8601. Raises `InvalidValueError`."""
    text = str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
    try:
        # float() takes digits of all scripts, and underscores between them
        seconds = unix_time(text) if text.isascii() and "_" not in text else -1.0
    except (ValueError, OverflowError):
        seconds = -1.0
    if seconds < 0 and " " in text:  # a plus sign that was not encoded
        return time_of(field, text.replace(" ", "+"))
    if not 0 <= seconds <= LATEST:
        raise InvalidValueError(field, _EXPECTED, value)
    return seconds


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
