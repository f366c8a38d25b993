"""A run of a recipe: its saved state, its journal, and its permanent record."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

FINISHED: Final = "finished"
STOPPED: Final = "stopped"
NOT_VALID: Final = "not valid any more"


class Run(msgspec.Struct, forbid_unknown_fields=True, rename={"history": "course", "pre_outage": "anchor"}):
    """The saved state of a run, with a copy of the recipe: later edits of the document do not change it.

    `start` is the UNIX time of the start, at `offset` seconds of the recipe. `elapsed` seconds of the recipe
    were reached at the UNIX time `seen`, when the monotonic clock of the boot `boot` showed `monotonic`.
    `seen` is `confirmed` if the clock was synchronised. `lasted` is the known time since the start. `paused`
    is the UNIX time of a pause.

    `history` has pairs of a position in seconds of the recipe and its UNIX time, each valid until the next
    pair. `pre_outage` is the last pair before a power cut of unknown length.
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

    def saved(self) -> dict[str, Any]:
        """As JSON, without a copy of the recipe."""
        return {field.encode_name: getattr(self, field.name) for field in msgspec.structs.fields(self)}


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

        The desired point is of `variable` (recipe_start or recipe_end), with `value` (the recipe's id) and
        `time` (UNIX seconds). The document is the run's `recipe_run`, to be sent to the database.
        """

    async def progress(self, run: dict[str, Any]) -> None:
        """Save all of the run but its recipe, durably unless only time has moved it.

        Must not overtake a commit.
        """


def record(run: Run, environment: str) -> dict[str, Any]:
    """The `recipe_run` document at the start of a run; the members of its end are null.

    Times are UNIX seconds, `offset` and `elapsed` seconds of the recipe.
    """
    return {
        "_id": run.run_id,
        "environment": environment,
        "recipe_id": run.recipe_id,
        "recipe_rev": run.revision,
        "recipe": {name: value for name, value in run.recipe.items() if not name.startswith("_")},
        "started": run.start,
        "started_by": run.started_by,
        "offset": run.offset,
        "ended": None,
        "ended_by": None,
        "end_reason": None,
        "elapsed": None,
    }


def ended(run: Run, environment: str, *, time: float, by: str, reason: str, elapsed: float) -> dict[str, Any]:
    """The `recipe_run` document at the end of a run."""
    end = {"ended": time, "ended_by": by, "end_reason": reason, "elapsed": elapsed}
    return record(run, environment) | end
