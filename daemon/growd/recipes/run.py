"""A run of a recipe: its saved state, its journal, and its permanent record."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

FINISHED: Final = "finished"
STOPPED: Final = "stopped"
NOT_VALID: Final = "not valid any more"


MAX_RECORD: Final = 7_500_000
"""Size limit of the record of a run as JSON: CouchDB takes documents of up to 8 MB."""


class Ran(msgspec.Struct, forbid_unknown_fields=True):
    """A recipe that ran: since which UNIX time and position (seconds of the recipe), and by whom."""

    time: float
    elapsed: float
    recipe_id: str
    revision: str
    by: str
    recipe: dict[str, Any]


class Run(msgspec.Struct, forbid_unknown_fields=True):
    """The saved state of a run, with a copy of the recipe: later edits of the document do not change it.

    `start` is the UNIX time of the start, at `offset` seconds of the recipe. `elapsed` seconds of the recipe
    were reached at the UNIX time `seen`, when the monotonic clock of the boot `boot` showed `monotonic`.
    `seen` is `confirmed` if the clock was synchronised. `lasted` is the known time since the start. `paused`
    is the UNIX time of a pause.

    `ordered` is the UNIX time of the order, if the start waited for its time. `ran` has all recipes that ran,
    oldest first, once another one took over; the last one is `recipe`. It is empty before.

    `history` has pairs of a position in seconds of the recipe and its UNIX time, each valid until the next
    pair. `pre_outage` is the last pair before a power cut of unknown length. `about` are the members `growd`,
    `configuration`, `calibrations`, `counters` and `study` of the record, as they were at the start.
    """

    recipe_id: str
    recipe: dict[str, Any]
    start: float
    elapsed: float
    seen: float
    run_id: str = ""
    revision: str = ""
    started_by: str = ""
    offset: float = 0.0
    boot: str = ""
    monotonic: float = 0.0
    paused: float | None = None
    lasted: float = 0.0
    confirmed: bool = False
    history: list[tuple[float, float]] = []
    pre_outage: tuple[float, float] | None = None
    ordered: float | None = None
    ran: list[Ran] = []
    about: dict[str, Any] = {}

    @property
    def first(self) -> Ran:
        """The recipe at the start."""
        if self.ran:
            return self.ran[0]
        return Ran(self.start, self.offset, self.recipe_id, self.revision, self.started_by, self.recipe)

    def take_over(self, new: Ran) -> None:
        """Let another recipe run from now on."""
        self.ran = [*(self.ran or [self.first]), new]  # a copy: another run may share the list
        self.recipe_id, self.revision, self.recipe = new.recipe_id, new.revision, new.recipe

    def saved(self) -> dict[str, Any]:
        """As JSON, without a copy of the recipes."""
        return msgspec.structs.asdict(self) | {"ran": [msgspec.structs.asdict(each) for each in self.ran]}


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """A start at the UNIX time `at`, with a copy of the recipe, at `offset` seconds of it.

    `ordered` is the UNIX time of the order. `boot` is the last boot of the machine in which the wall clock is
    known to be right, `confirmed` whether it was synchronised (NTP) then. `study` is that of the run.
    """

    recipe_id: str
    recipe: dict[str, Any]
    at: float
    ordered: float
    revision: str = ""
    offset: float = 0.0
    by: str = ""
    boot: str = ""
    confirmed: bool = False
    study: dict[str, Any] = {}


class Journal(Protocol):
    """Where the run is saved. Each call raises OSError if it fails, and then changes nothing."""

    def new_run_id(self, time: float) -> str:
        """A unique id for a run that starts at this UNIX time."""

    async def load(self) -> dict[str, Any] | None:
        """The run that was saved last, None if there is none."""

    async def commit(
        self, run: dict[str, Any] | None, variable: str, value: str, time: float, document: dict[str, Any]
    ) -> None:
        """In one durable transaction: save the run (None clears it), and add a data point and a document.

        An order is deleted. The desired point is of `variable` (recipe_start or recipe_end), with `value`
        (the recipe's id) and `time` (UNIX seconds). The document is the run's `recipe_run`, to be sent to the
        database.
        """

    async def revise(self, run: dict[str, Any], document: dict[str, Any]) -> None:
        """In one durable transaction: save a run with another recipe, and its document."""

    async def load_order(self) -> dict[str, Any] | None:
        """The order that waits, None if there is none."""

    async def save_order(self, order: dict[str, Any] | None) -> None:
        """Save an order durably; None deletes it."""

    async def progress(self, run: dict[str, Any]) -> None:
        """Save all of the run but its recipe, durably unless only time has moved it.

        Must not overtake a commit.
        """


def record(run: Run, environment: str) -> dict[str, Any]:
    """The `recipe_run` document of a run that has not ended; the members of its end are null.

    Times are UNIX seconds, `offset` and `elapsed` seconds of the recipe.
    """
    return {
        "_id": run.run_id,
        "environment": environment,
        **_recipe(run.first),
        **run.about,
        "started": run.start,
        "started_by": run.started_by,
        "ordered": run.ordered,
        "offset": run.offset,
        "revisions": [
            {"time": each.time, "elapsed": each.elapsed, "by": each.by, **_recipe(each)}
            for each in run.ran[1:]
        ],
        "ended": None,
        "ended_by": None,
        "end_reason": None,
        "elapsed": None,
        "counters_at_end": None,
    }


def ended(
    run: Run,
    environment: str,
    *,
    time: float,
    by: str,
    reason: str,
    elapsed: float,
    counters: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The `recipe_run` document at the end of a run, with the counters of the outputs then."""
    end = {"ended": time, "ended_by": by, "end_reason": reason, "elapsed": elapsed}
    return record(run, environment) | end | {"counters_at_end": counters}


def _recipe(ran: Ran) -> dict[str, Any]:
    document = {name: value for name, value in ran.recipe.items() if not name.startswith("_")}
    return {"recipe_id": ran.recipe_id, "recipe_rev": ran.revision, "recipe": document}
