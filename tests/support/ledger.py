"""Compares what a store process reported before it was killed with what the database has."""

from collections import defaultdict


class Ledger:
    """Collects the reports of all lives of `tests/store/killed_writer.py`, and checks them.

    A promise is a state (the run, the parameters) that changes in steps. After a kill the last acknowledged
    step must be there, or the one that was begun after it.
    """

    def __init__(self):
        self.made = {}
        self.acknowledged = set()
        self.undone = set()  # of steps that a kill undid
        self.promises = 0  # acknowledged steps
        self._lives = []  # the ids of each life, in order
        self._ids = {}
        self._kept = {}
        self._begun = {}

    def begin_life(self):
        self._lives.append([])

    def take(self, word, *values):
        getattr(self, f"_take_{word}")(*values)

    def _take_made(self, point_id, variable, value):
        assert point_id not in self.made
        self.made[point_id] = (variable, value)
        self._ids[variable, value] = point_id
        self._lives[-1].append(point_id)

    def _take_kept(self, *ids):
        self.acknowledged.update(ids)

    def _take_begin(self, promise, state, point):
        self._begun[promise] = (state, (point[0], point[1]) if point else None)

    def _take_did(self, promise):
        self._kept[promise], point = self._begun.pop(promise)
        self.promises += 1
        self._keep(point)

    def _take_found(self, promise, state):
        """The state that a new life found at its start."""
        begun, point = self._begun.pop(promise, (None, None))
        if state == self._kept.get(promise):
            self.undone |= {point} if point else set()
            return
        assert state == begun, f"{promise} is neither {self._kept.get(promise)} nor {begun}"
        self._kept[promise] = state
        self._keep(point)

    def _take_notice(self, sentence):
        raise AssertionError(f"a kill damaged a file: {sentence}")

    def _keep(self, point):
        """The point of a stored step is stored, too."""
        if point:
            self.acknowledged.add(self._ids[point])

    def check(self, changes):
        """Check the rows of the database's `_changes`, with documents, in order."""
        documents = [row["doc"] for row in changes if not row["id"].startswith("_design/")]
        stored = {document["_id"]: (document["variable"], document["value"]) for document in documents}
        assert len(stored) == len(documents)
        assert stored.items() <= self.made.items(), "the database has a point that was never made"
        lost = self.acknowledged - stored.keys()
        assert not lost, (
            f"{len(lost)} of {len(self.acknowledged)} acknowledged points are lost: {self._described(lost)}"
        )
        assert {document["_rev"].partition("-")[0] for document in documents} <= {"1"}, (
            "a point was written twice"
        )
        assert not self.undone & set(stored.values()), "a step was undone, but its point is stored"
        self._check_order(stored)
        self._check_no_gaps(stored)

    def _described(self, ids):
        """Some of these points, each with its life and its number within the life."""
        places = {
            point_id: f"{place} of {len(made)} in life {life}"
            for life, made in enumerate(self._lives, 1)
            for place, point_id in enumerate(made, 1)
        }
        return [(self.made[point_id], places[point_id]) for point_id in sorted(ids)[:20]]

    @staticmethod
    def _check_order(stored):
        by_variable = defaultdict(list)
        for variable, value in stored.values():
            by_variable[variable].append(value)
        for variable, values in by_variable.items():
            assert values == sorted(values), f"points of {variable} overtook each other"

    def _check_no_gaps(self, stored):
        """A kill may only lose the last points of a variable, none in the middle."""
        for ids in self._lives:
            gone = set()
            for point_id in ids:
                variable = self.made[point_id][0]
                assert point_id not in stored or variable not in gone, f"a gap in {variable}"
                gone |= set() if point_id in stored else {variable}
