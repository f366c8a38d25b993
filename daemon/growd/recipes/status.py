"""The active run, and its status for clients."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import counted, shown
from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType
from growd.recipes.formats import FORMATS, RecipeRefusedError
from growd.recipes.run import Run
from growd.runtime.text import duration
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from growd.bus import Node
    from growd.bus.params import Parameter
    from growd.recipes.findings import RecipeFinding
    from growd.recipes.library import Library
    from growd.recipes.plan import Phase, Plan, Written
    from growd.recipes.position import Position
    from growd.recipes.run import Order, Ran
    from growd.recipes.waiting import WaitingStart
    from growd.runtime.clock import Clock

RECIPE_STATE = MessageType(
    "growd/RecipeState",
    (
        Field("state", Kind.STRING),
        Field("recipe_id", Kind.STRING),
        Field("phase", Kind.STRING),
        Field("elapsed", Kind.FLOAT64, 0, unit="s"),
        Field("remaining", Kind.FLOAT64, 0, unit="s"),
        Field("starts_at", Kind.FLOAT64, 0, unit="s"),
    ),
)
"""The state ("idle", "waiting", "running" or "paused"), the position in seconds of the recipe, and the UNIX
time of the start while it waits."""

_MAX_DIGITS: Final = 4  # of the number of a phase
_IDLE: Final = {
    "state": "idle", "recipe_id": "", "phase": "", "elapsed": 0.0, "remaining": 0.0, "starts_at": 0.0,
}  # fmt: skip


class ActiveRun:
    """The active run; `driven_variables` are those with a set point of the recipe.

    `ending` is the reason of its end, which is still to be recorded; then it publishes no set points.
    """

    def __init__(self, position: Position, plan: Plan, ending: str = "") -> None:
        self.position = position
        self.plan = plan
        self.driven_variables: set[str] = set()
        self.ending = ending

    @property
    def run(self) -> Run:
        return self.position.run

    def elapsed(self) -> float:
        """Seconds of the recipe."""
        return self.position.elapsed()

    def set_points(self, zone: tzinfo | None) -> dict[str, float]:
        """The present value of each variable that has one, with times of day in `zone`."""
        return self.plan.set_points(*self._now(zone))

    def written(self, variable: str, zone: tzinfo | None) -> Written | None:
        """The set point in force, as written in the recipe; see `Plan.written`."""
        return self.plan.written(variable, *self._now(zone))

    def describe(self, variable: str, zone: tzinfo | None) -> str:
        """The recipe, its set point of a variable, and when it next changes that."""
        value = self.set_points(zone).get(variable)
        now = "released" if value is None else f"{value:g} {VARIABLES[variable].unit}"
        when = ", after its pause"
        if not self.position.is_paused:
            at = self.changes_at(variable, zone)
            when = f", in {duration(at - self.position.wall())}" if at else ""
        return f"the recipe {self.run.recipe_id} ({now}) until it next changes {variable}{when}"

    def changes_at(self, variable: str, zone: tzinfo | None) -> float:
        """When the recipe next changes a variable (UNIX seconds); 0 while it is paused, or if that is far."""
        if self.position.is_paused:
            return 0.0
        from growd.recipes.changes import next_change  # noqa: PLC0415  loaded with the plan

        elapsed, wall = self.elapsed(), self.position.wall()
        change = next_change(self.plan, variable, elapsed, wall - elapsed, zone)
        return 0.0 if change is None else wall + change - elapsed

    def _now(self, zone: tzinfo | None) -> tuple[float, float, Callable[[float], float]]:
        position = self.position
        earlier = partial(position.time_of_day_at, zone=zone)
        return self.elapsed(), position.time_of_day(zone), earlier

    def changed_to(self, new: Ran, plan: Plan) -> ActiveRun:
        """A copy in which another recipe takes over at the present position."""
        copy = ActiveRun(self.position.copied(), plan)
        copy.position.checkpoint()
        copy.run.take_over(new)
        return copy

    def copied(self) -> ActiveRun:
        """An independent copy."""
        copy = ActiveRun(self.position.copied(), self.plan, self.ending)
        copy.driven_variables = set(self.driven_variables)
        return copy

    def state(self) -> dict[str, Any]:
        """The fields of `RECIPE_STATE`."""
        elapsed = min(self.elapsed(), self.plan.duration)
        return {
            "state": "paused" if self.position.is_paused else "running",
            "recipe_id": self.run.recipe_id,
            "phase": self.plan.phases[self.plan.phase_at(elapsed)].name,
            "elapsed": elapsed,
            "remaining": self.plan.duration - elapsed,
            "starts_at": 0.0,
        }


class RunStatus:
    """Read-only parameters and a topic below `<environment>/` with the status of the run.

    Parameters of openag_brain: `current_recipe` ("" unless one runs), `current_recipe_start` (UNIX seconds, 0
    unless one runs), `supported_recipe_formats` (separated by commas). Live parameters: `recipe_state`,
    `recipe_phase`, `recipe_elapsed`, `recipe_remaining`. The topic `recipe_state` has the live ones each
    second.
    """

    def __init__(self, node: Node, environment: str) -> None:
        def parameter(name: str, kind: Kind, default: Any) -> Parameter:
            field = Field(name, kind, default=default)
            return node.declare(f"{environment}/{name}", field, read_only=True)

        self._current = parameter("current_recipe", Kind.STRING, "")
        self._current_start = parameter("current_recipe_start", Kind.FLOAT64, 0.0)
        self._formats = parameter("supported_recipe_formats", Kind.STRING, "")
        self._live = {
            "state": parameter("recipe_state", Kind.STRING, "idle"),
            "phase": parameter("recipe_phase", Kind.STRING, ""),
            "elapsed": parameter("recipe_elapsed", Kind.FLOAT64, 0.0),
            "remaining": parameter("recipe_remaining", Kind.FLOAT64, 0.0),
        }
        self._topic = node.advertise(f"{environment}/recipe_state", RECIPE_STATE)

    def publish(self, active: ActiveRun | WaitingStart | None) -> None:
        """Publish the present state and position."""
        state = _IDLE if active is None else active.state()
        self._topic.publish(state)
        for name, parameter in self._live.items():
            parameter.show(state[name])

    async def save(self, active: ActiveRun | None) -> None:
        """Set the persistent parameters. Raises OSError."""
        await _set(self._current, "" if active is None else active.run.recipe_id)
        await _set(self._current_start, 0.0 if active is None else active.run.start)
        await _set(self._formats, ",".join(FORMATS))


def phase_named(plan: Plan, wanted: Any) -> Phase:
    """The first phase of that name, or the one with that number from 1. Raises `RecipeRefusedError`."""
    for phase in plan.phases:
        if phase.name == wanted:
            return phase
    number = (
        int(wanted)
        if isinstance(wanted, str) and wanted.isdecimal() and len(wanted) <= _MAX_DIGITS
        else wanted
    )
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= len(plan.phases):
        return plan.phases[number - 1]
    phases = enumerate(plan.phases, start=1)
    names = ", ".join(f"{index} {phase.name or '(without a name)'}" for index, phase in phases)
    existing = f"the recipe has {counted(len(plan.phases), 'phase')}: {names}"
    raise RecipeRefusedError(f"phase: there is no phase {shown(wanted)}; {existing}")


def warning_text(warnings: list[RecipeFinding]) -> str:
    """The warnings on a recipe, to append to the answer of start_recipe."""
    return "".join(f"; warning: {finding}" for finding in warnings)


async def _set(parameter: Parameter, value: Any) -> None:
    if parameter.value != value:
        await parameter.set(value)


LOOK_UP_S: Final = 5.0  # between two look-ups
LOOK_UP_TIMEOUT_S: Final = 1.0


class DocumentWatch:
    """Describes the recipe that `present` returns, and whether its document has changed since it was read."""

    def __init__(
        self, library: Library, clock: Clock, environment: str, present: Callable[[], Run | Order | None]
    ) -> None:
        self._library = library
        self._clock = clock
        self._environment = environment
        self._present = present
        self._of: tuple[str, str] | None = None  # the recipe and revision that was looked up
        self._found = ""  # the revision in the database
        self._conflict = ""  # the words on other versions there
        self._due = 0.0

    async def look_up(self) -> None:
        """Look up the revision in the database, at most every `LOOK_UP_S` for the same recipe."""
        present = self._present()
        if present is None:
            return
        of = (present.recipe_id, present.revision)
        if of != self._of:
            self._of, self._found, self._conflict = of, "", ""
        elif self._clock.monotonic() < self._due:
            return
        self._due = self._clock.monotonic() + LOOK_UP_S
        with suppress(RecipeRefusedError, TimeoutError):
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                document = await self._library.read(present.recipe_id)
            from growd.recipes.doubts import conflict_in  # noqa: PLC0415  loaded with the plan

            if self._of == of:  # another recipe may have begun meanwhile
                self._found, self._conflict = str(document.get("_rev", "")), conflict_in(document)

    def problem(self) -> str:
        """The words on other versions of the recipe in the database, "" without any."""
        present = self._present()
        if present is None or self._of != (present.recipe_id, present.revision) or not self._conflict:
            return ""
        return f"recipe {present.recipe_id}: {self._conflict}"

    def described(self) -> dict[str, Any]:
        """The recipe; `changed` is the revision in the database if it is another.

        `started` is the UNIX time of the start, 0 before, and `by` who ordered it. `revised_at` is the UNIX
        time at which the recipe took over from another one, 0 if none did.
        """
        present = self._present()
        revision = "" if present is None else present.revision
        found = self._found if present is not None and self._of == (present.recipe_id, revision) else ""
        started, by, revised_at = 0.0, "", 0.0
        if isinstance(present, Run):
            started, by = present.start, present.started_by
            revised_at = present.ran[-1].time if present.ran else 0.0
        elif present is not None:
            by = present.by
        return {
            "environment": self._environment,
            "revision": revision,
            "changed": found if revision and found != revision else "",
            "revised_at": revised_at,
            "started": started,
            "by": by,
        }
