"""What a store process said before it was killed, held against what it left behind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Point = tuple[str, Any]  # variable and value, which no two points of a test have in common


class Ledger:
    """Takes the words of `tests/store/killed_writer.py`, of all its lives, and checks what can be checked.

    A promise is a state (the run, the parameters) that is changed in steps, one at a time: after a kill the
    last one that was acknowledged must be there, or the one that was begun after it.
    """

    def __init__(self) -> None:
        self.made: dict[str, Point] = {}
        self.acknowledged: set[str] = set()
        self.undone: set[Point] = set()  # of steps that a kill has undone
        self.promises = 0  # acknowledged steps
        self._lives: list[list[str]] = []  # the ids that each life made, in order
        self._ids: dict[Point, str] = {}
        self._kept: dict[str, Any] = {}
        self._begun: dict[str, tuple[Any, Point | None]] = {}

    def begin_life(self) -> None:
        self._lives.append([])

    def take(self, word: str, *values: Any) -> None:
        getattr(self, f"_take_{word}")(*values)

    def _take_made(self, point_id: str, variable: str, value: Any) -> None:
        assert point_id not in self.made
        self.made[point_id] = (variable, value)
        self._ids[variable, value] = point_id
        self._lives[-1].append(point_id)

    def _take_kept(self, *ids: str) -> None:
        self.acknowledged.update(ids)

    def _take_begin(self, promise: str, state: Any, point: list[Any] | None) -> None:
        self._begun[promise] = (state, (point[0], point[1]) if point else None)

    def _take_did(self, promise: str) -> None:
        self._kept[promise], point = self._begun.pop(promise)
        self.promises += 1
        self._keep(point)

    def _take_found(self, promise: str, state: Any) -> None:
        """What a new life found, before it changed anything."""
        begun, point = self._begun.pop(promise, (None, None))
        if state == self._kept.get(promise):
            self.undone |= {point} if point else set()
            return
        assert state == begun, f"{promise} is neither {self._kept.get(promise)} nor {begun}"
        self._kept[promise] = state
        self._keep(point)

    def _take_notice(self, sentence: str) -> None:
        raise AssertionError(f"a kill damaged a file: {sentence}")

    def _keep(self, point: Point | None) -> None:
        """A step is kept: so is its point."""
        if point:
            self.acknowledged.add(self._ids[point])

    def check(self, changes: Iterable[dict[str, Any]]) -> None:
        """`changes` are the rows of the database's `_changes`, with documents, in their order."""
        documents = [row["doc"] for row in changes if not row["id"].startswith("_design/")]
        stored = {document["_id"]: (document["variable"], document["value"]) for document in documents}
        assert len(stored) == len(documents)
        assert stored.items() <= self.made.items(), "something is there that was never made"
        lost = self.acknowledged - stored.keys()
        assert not lost, (
            f"{len(lost)} of {len(self.acknowledged)} acknowledged points are lost: {self._described(lost)}"
        )
        assert {document["_rev"].partition("-")[0] for document in documents} <= {"1"}, (
            "one was written twice"
        )
        assert not self.undone & set(stored.values()), "a step was undone, but its point is there"
        self._check_order(stored)
        self._check_no_gaps(stored)

    def _described(self, ids: set[str]) -> list[tuple[Point, str]]:
        """Some of these points, each with its life and its place among those that the life made."""
        places = {
            point_id: f"{place} of {len(made)} in life {life}"
            for life, made in enumerate(self._lives, 1)
            for place, point_id in enumerate(made, 1)
        }
        return [(self.made[point_id], places[point_id]) for point_id in sorted(ids)[:20]]

    @staticmethod
    def _check_order(stored: dict[str, Point]) -> None:
        by_variable = defaultdict(list)
        for variable, value in stored.values():
            by_variable[variable].append(value)
        for variable, values in by_variable.items():
            assert values == sorted(values), f"points of {variable} overtook each other"

    def _check_no_gaps(self, stored: dict[str, Point]) -> None:
        """What a kill took of a variable are the last points that were made, and none in the middle."""
        for ids in self._lives:
            gone: set[str] = set()
            for point_id in ids:
                variable = self.made[point_id][0]
                assert point_id not in stored or variable not in gone, f"a gap in {variable}"
                gone |= set() if point_id in stored else {variable}
