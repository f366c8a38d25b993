"""How far the rollups of a database are: the documents `_local/growd-points` and `_local/growd-events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.errors import RollupError
from growd.store.rollups.document import WIDTHS, RollupSeries, series_of, series_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EVERY_SERIES: Final = ""
"""Stands for all series in `Pending`."""


class RollupState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is saved. Times are UNIX seconds.

    Without the document nothing has been rolled up. `seq` is the position in the changes of the database,
    None before the first. While the whole database is read, `resume_at` is where to go on afterwards.
    `database` identifies the database (`_local/growd-rollups` there). `pending` has the spans to compute, by
    width and series (`Pending`). All five-minute documents before `sealed_until` are sealed; `late` are
    sealed documents with late points that are being written. The documents have all points that the database
    had at `looked_at`. Raw points before `retired_until` have been retired.
    """

    id: str = msgspec.field(name="_id")
    rev: str = msgspec.field(name="_rev", default="")
    seq: str | int | None = None
    resume_at: str | int | None = None
    database: str = ""
    pending: dict[str, dict[str, list[int]]] = {}
    sealed_until: int = 0
    late: list[dict[str, Any]] = []
    looked_at: float = 0.0
    retired_until: int = 0

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> RollupState:
        """The state in a document. Raises `RollupError` for one that growd has not written."""
        try:
            state = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            fault = str(error)
        else:
            unknown = state.pending.keys() - {str(width) for width in WIDTHS}
            if not unknown:
                return state
            fault = f"no rollups have the width {min(unknown)!r}"
        remedy = "delete it, and growd reads all points again"
        raise RollupError(f"{document.get('_id')} is not in growd's form: {fault}; {remedy}")

    def document(self) -> dict[str, Any]:
        """As JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


class Pending:
    """The spans that wait for their end, or to be computed: of each width, by series."""

    def __init__(self, saved: dict[str, dict[str, list[int]]] | None = None) -> None:
        self._spans: dict[int, dict[str, set[int]]] = {width: {} for width in WIDTHS}
        for width, by_series in (saved or {}).items():
            self._spans[int(width)] = {text: set(starts) for text, starts in by_series.items()}

    def __len__(self) -> int:
        return sum(len(starts) for of_width in self._spans.values() for starts in of_width.values())

    def add(self, width: int, series: RollupSeries | None, start: int) -> None:
        """Add a span; None stands for all series."""
        text = EVERY_SERIES if series is None else series_text(series)
        self._spans[width].setdefault(text, set()).add(start)

    def discard(self, width: int, series: RollupSeries | None, start: int) -> None:
        """Forget a span."""
        text = EVERY_SERIES if series is None else series_text(series)
        starts = self._spans[width].get(text, set())
        starts.discard(start)
        if not starts:
            self._spans[width].pop(text, None)

    def clear(self, width: int) -> None:
        """Forget all spans of a width."""
        self._spans[width] = {}

    def due(self, width: int, now: float, delay: float, most: int) -> list[tuple[RollupSeries, int]]:
        """At most `most` spans of single series that have to be computed, of one series after the other.

        Those that are over, and those of the future: it has no end that is worth to wait for.
        """
        found: list[tuple[RollupSeries, int]] = []
        for text, starts in self._spans[width].items():
            series = series_of(text)
            if series is not None:
                found += [(series, start) for start in sorted(_due(starts, width, now, delay))]
            if len(found) >= most:
                break
        return found[:most]

    def due_for_every_series(self, width: int, now: float, delay: float) -> list[int]:
        """The spans that have to be computed for all series."""
        return sorted(_due(self._spans[width].get(EVERY_SERIES, ()), width, now, delay))

    def saved(self) -> dict[str, dict[str, list[int]]]:
        """As `RollupState` has it."""
        return {
            str(width): {text: sorted(starts) for text, starts in of_width.items()}
            for width, of_width in self._spans.items()
            if of_width
        }


def _due(starts: Iterable[int], width: int, now: float, delay: float) -> Iterator[int]:
    return (start for start in starts if not start <= now < start + WIDTHS[width] + delay)
