"""The stored points of a variable, page by page, from the database behind growd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec

from growd_client.answers import StoredPoint  # noqa: TC001  msgspec reads it
from growd_client.errors import NotFoundError, UsageError
from growd_client.methods import HISTORY_S, ClientMethods, seconds_of
from growd_client.request import ClientCall

if TYPE_CHECKING:
    from growd_client.answers import PastRange
    from growd_client.errors import GrowdError
    from growd_client.methods import Time

DATABASES: Final = {
    **dict.fromkeys(("measured", "desired"), "environmental_data_point"),
    **dict.fromkeys(("commanded", "quality", "event"), "environmental_event"),
}
_PAGE_ROWS: Final = 1_000


class _PointRow(msgspec.Struct):
    id: str
    key: list[Any]
    value: StoredPoint


class _PointRows(msgspec.Struct):
    rows: list[_PointRow]


class PointPages:
    """The way through the view `by_variable`, until `done`.

    Each page begins at the last row of the page before, so none is left out if that row is deleted meanwhile.
    Without a point in the range, the last request asks for one at any time: without that, `has_none` is true.
    """

    def __init__(
        self,
        series: tuple[str, str, str],
        start: Time | None,
        end: Time | None,
        prefix: str,
        *,
        rows: int = _PAGE_ROWS,
    ) -> None:
        """`series` is the environment, the category and the variable."""
        category = series[1]
        if category not in DATABASES:
            raise UsageError(f"category: expected one of {', '.join(DATABASES)}, got {category!r}")
        self.done = self.has_none = self._is_asking = False
        self._series = series
        self._rows = rows
        first, last = seconds_of("start", start), seconds_of("end", end)
        if first is not None and last is not None and first > last:
            raise UsageError(f"start: expected a time before the end, {last:.15g}, got {first:.15g}")
        self._from: dict[str, Any] = {"startkey": series if first is None else [*series, first]}
        self._end: list[Any] = [*series, {} if last is None else last]
        self._view = f"{quote(prefix + DATABASES[category], safe='')}/_design/svc/_view/by_variable"

    def call(self) -> ClientCall[list[StoredPoint]]:
        """The request for the next page."""
        query = {"reduce": False, "limit": self._rows, **self._from, "endkey": self._end}
        encoded = urlencode({name: msgspec.json.encode(value) for name, value in query.items()})
        return ClientCall("GET", f"{self._view}?{encoded}", self._take, wait_s=HISTORY_S, of_database=True)

    def names(self) -> ClientCall[PastRange]:
        """The request that growd refuses if it does not know the environment or the variable."""
        environment, category, variable = self._series
        variables = [] if category == "event" else [variable]
        return ClientMethods.history(self, environment, *variables, points=2, series=False, events=False)

    def _take(self, body: bytes) -> list[StoredPoint]:
        rows = msgspec.json.decode(body, type=_PointRows).rows
        if self._is_asking:
            self.done, self.has_none = True, not rows
            return []
        if not rows and "startkey_docid" not in self._from:
            self._is_asking, self._rows = True, 1
            self._from, self._end = {"startkey": self._series}, [*self._series, {}]
            return []
        self.done = len(rows) < self._rows
        is_repeated = bool(rows) and rows[0].id == self._from.get("startkey_docid")
        if rows:
            self._from = {"startkey": rows[-1].key, "startkey_docid": rows[-1].id}
        return [row.value for row in rows[is_repeated:]]


def refuses_a_name(error: GrowdError) -> bool:
    """Whether growd does not know a name; a database may also be read without its growd."""
    return isinstance(error, NotFoundError) or getattr(error, "code", "") == "invalid_value"
