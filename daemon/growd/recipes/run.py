"""A run of a recipe: what is kept of it, and what is told of it for good."""

from __future__ import annotations

from typing import Any, Final

import msgspec

FINISHED: Final = "finished"
STOPPED: Final = "stopped"
NOT_VALID: Final = "not valid any more"


class Run(msgspec.Struct, forbid_unknown_fields=True):
    """A run as it is kept: the whole recipe is pinned, so that an edit of the document changes nothing.

    `start` is the UNIX time of the start, at `offset` seconds of the recipe. The run had come to `elapsed`
    seconds of the recipe at the UNIX time `seen`, which was `monotonic` in the time of the kernel's start
    `boot`. `seen` is `confirmed` where something that knows the time has set the clock in that life of the
    machine; the start was `lasted` seconds before, as far as is known. `paused` is the UNIX time that it
    stands still at, None while it goes on.

    `course` says when it was where, each pair until the next: at the UNIX time of the second number it was at
    the seconds of the recipe of the first. `anchor` is the last such pair before a power cut, as long as it
    is not sure how long that took.
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
    course: list[tuple[float, float]] = []
    anchor: tuple[float, float] | None = None

    def kept(self) -> dict[str, Any]:
        """As JSON has it."""
        return msgspec.structs.asdict(self)


def record(run: Run, environment: str) -> dict[str, Any]:
    """The `recipe_run` document of a run that has begun: what ran, when, and who wanted it.

    Times are UNIX seconds, `offset` and `elapsed` seconds of the recipe. What the end brings is null.
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
    """The same document at the end of the run."""
    end = {"ended": time, "ended_by": by, "end_reason": reason, "elapsed": elapsed}
    return record(run, environment) | end
