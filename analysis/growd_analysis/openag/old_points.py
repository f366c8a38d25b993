"""Imported points that retention concerns: it would delete them soon, or has deleted the same ones before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import counted
from growd.store.errors import StoreError
from growd.store.rollups.document import rollup_id, rollup_of, span_of
from growd.store.rollups.rolled import is_retired_once_sealed, rolled_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.store.couch import Couch, Document
    from growd.store.rollups.document import RollupSeries

COUNTED: Final = "sealed rollups have values of these five minutes: the point may be counted in them already"
"""Why a point is not imported."""

_WIDTH: Final = 300
_DAY_S: Final = 86_400

_Bucket = tuple[str, int]
"""The `_id` of the five-minute document, and the start of the bucket."""


class OldPointsError(StoreError):
    """Points would be imported and soon deleted; the message says what to do."""


class OldPoints:
    """What to do with points that are older than `keep_days` (0: none are deleted) at the UNIX time `now`.

    They are refused unless `are_accepted`. `number` counts them. `rollups` is the database of rollups.
    """

    def __init__(
        self, couch: Couch, rollups: str, *, keep_days: float, now: float, are_accepted: bool
    ) -> None:
        self.number = 0
        self.keep_days = keep_days
        self._couch = couch
        self._rollups = rollups
        self._before = now - keep_days * _DAY_S if keep_days else 0.0
        self._are_accepted = are_accepted
        self._has_rollups: bool | None = None
        self._own: set[_Bucket] = set()  # of the last documents

    def check(self, documents: Sequence[Document]) -> None:
        """Count the old ones. Raises `OldPointsError` if there are some and they are not accepted."""
        times = [each["timestamp"] for each in documents if _may_be_deleted(each)]
        old = [time for time in times if time < self._before]
        self.number += len(old)
        if old and not self._are_accepted:
            raise OldPointsError(
                f"{counted(len(old), 'point')} of {len(documents)} that are next, the first of "
                f"{datetime.fromtimestamp(min(old), UTC):%Y-%m-%d}, are older than {self.keep_days:g} days: "
                "growd would soon delete them and keep only their rollups; none that old was imported. "
                "[retention] keep_days = 0 in growd's configuration keeps all points; "
                "--old-points=rollups imports them for their rollups"
            )

    async def counted_already(self, documents: Sequence[Document]) -> set[str]:
        """The ids of points that a sealed rollup may have: a second time, they would be added to it again.

        A rollup knows no ids. So a bucket with values stands for all points of its five minutes, except where
        the last documents of this import had points of it.
        """
        buckets = {each["_id"]: _bucket(each) for each in documents if _may_be_deleted(each)}
        sealed = await self._sealed({document_id for document_id, _ in buckets.values()})
        found = {each for each, bucket in buckets.items() if bucket in sealed and bucket not in self._own}
        self._own = {bucket for each, bucket in buckets.items() if each not in found}
        return found

    async def _sealed(self, ids: set[str]) -> set[_Bucket]:
        """The buckets that have values in these documents, as far as they are sealed."""
        if self._has_rollups is None:
            self._has_rollups = await self._couch.exists(self._rollups)
        if not ids or not self._has_rollups:
            return set()
        documents = await self._couch.documents(self._rollups, sorted(ids))
        rollups = [rollup for each in documents.values() if (rollup := rollup_of(each)) is not None]
        return {(one.id, one.start + at * _WIDTH) for one in rollups if one.is_sealed for at in one.at}


def _may_be_deleted(document: Document) -> bool:
    return is_retired_once_sealed(document, is_event=False)


def _bucket(document: dict[str, Any]) -> _Bucket:
    series: RollupSeries
    series, time, _ = rolled_point(document, is_event=False)  # type: ignore[misc]  # it may be deleted
    return rollup_id(series, _WIDTH, span_of(_WIDTH, time)), int(time // _WIDTH) * _WIDTH
