"""Points of many variables as a table with one row for each step of time, made while they come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Key = tuple[str, str, str]  # environment, category, variable


@dataclass(frozen=True, slots=True)
class Column:
    """What a series is called, and for how many seconds its last value counts; None: until the next."""

    name: str
    carried_s: float | None


class WideTable:
    """Rows at the multiples of `every` seconds, from points that come in the order of their times.

    A cell has the newest value of its series that is not younger than the row. Rows without any value are
    left out. A row is a dictionary of the values by the names of the columns, and its `timestamp`.
    """

    def __init__(
        self,
        columns: Mapping[Key, Column],
        every: float,
        start: float | None = None,
        seeds: Mapping[Key, tuple[float, Any]] | None = None,
    ) -> None:
        self._columns = columns
        self._every = every
        self._newest: dict[Key, tuple[float, Any]] = dict(seeds or {})
        self._next = None if start is None else self._step_from(start)

    def take(self, key: Key, time: float, value: Any) -> Iterator[dict[str, Any]]:
        """The rows before a point, which counts from then on."""
        if self._next is None:
            self._next = self._step_from(time)
        while self._next < time:
            row = self._row(self._next)
            if len(row) == 1:  # nothing changes before the point comes
                self._next = self._step_from(time)
                break
            self._next += self._every
            yield row
        if key in self._columns:
            self._newest[key] = (time, value)

    def end(self, time: float) -> Iterator[dict[str, Any]]:
        """The rows from the last point to this time."""
        while self._next is not None and self._next <= time:
            row = self._row(self._next)
            self._next += self._every
            if len(row) > 1:
                yield row

    def _row(self, time: float) -> dict[str, Any]:
        row: dict[str, Any] = {"timestamp": time}
        for key, (since, value) in self._newest.items():
            column = self._columns[key]
            if value is not None and (column.carried_s is None or time - since <= column.carried_s):
                row[column.name] = value
        return row

    def _step_from(self, time: float) -> float:
        return math.ceil(time / self._every) * self._every
