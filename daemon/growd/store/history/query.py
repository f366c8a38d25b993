"""What can be asked of the history."""

from __future__ import annotations

from typing import Final

import msgspec

from growd.bus.errors import InvalidValueError

CATEGORIES: Final = ("measured", "desired", "commanded")
MOST_VARIABLES: Final = 50
MOST_BUCKETS: Final = 20_000  # variables times points


class HistoryQuery(msgspec.Struct, frozen=True):
    """What to answer: times in UNIX seconds, at most `points` buckets; no variables mean all."""

    environment: str
    variables: tuple[str, ...]
    start: float
    end: float
    points: int
    with_series: bool = True
    with_events: bool = True


def check_size(query: HistoryQuery, number: int) -> None:
    """Refuse more buckets than one answer may have, for a number of variables."""
    if number > MOST_VARIABLES:
        raise InvalidValueError("variable", f"at most {MOST_VARIABLES} by name", number)
    if query.points * number > MOST_BUCKETS:
        expected = f"at most {MOST_BUCKETS // number} for {number} variables"
        raise InvalidValueError("points", expected, query.points)
