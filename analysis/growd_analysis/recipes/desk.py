"""The services that check a recipe and draw its plan."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import counted
from growd.bus.fields import Field, Kind
from growd.bus.services import SUCCESS
from growd.recipes.formats import RecipeRefusedError
from growd.recipes.waiting import WaitingStart

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from growd.bus import Node
    from growd.recipes.findings import RecipeFinding
    from growd.recipes.formats import Reach
    from growd.recipes.library import Library
    from growd.recipes.run import Order, Run
    from growd.recipes.status import ActiveRun
    from growd.runtime.clock import Clock

_LATEST: Final = 1e11  # UNIX seconds; the year 5138: some years before the last that Python can express
MAX_CALLS: Final = 32
"""Calls of check_recipe and recipe_plan of one environment that are under way; one of them is computed."""

_ID: Final = "the id of a document in the database recipes"
_DOCUMENT: Final = Field("recipe", Kind.JSON, default=None, doc="a recipe document, instead of recipe_id")
_START: Final = Field(
    "start", Kind.FLOAT64, 0, _LATEST, default=0.0, unit="s", doc="UNIX time of its start; 0: now"
)


class RecipeDesk:
    """Offers two services of an environment on `node`.

    `<environment>/check_recipe` returns the errors and warnings on a recipe, from the database or in the
    request; `<environment>/recipe_plan` returns the plan of one, by default of that which runs or waits:
    `running` returns it. `zone` is that of times of day, None that of the machine.
    """

    def __init__(
        self,
        node: Node,
        environment: str,
        library: Library,
        *,
        clock: Clock,
        zone: tzinfo | None,
        running: Callable[[], ActiveRun | WaitingStart | None],
    ) -> None:
        self._library = library
        self._clock = clock
        self._zone = zone
        self._running = running
        self._calls = 0
        self._one_at_a_time = asyncio.Lock()
        node.serve(
            f"{environment}/check_recipe",
            "growd/CheckRecipe",
            self._answer_check,
            arguments=(Field("recipe_id", Kind.STRING, default="", doc=_ID), _DOCUMENT),
            reply=(
                *SUCCESS,
                Field("valid", Kind.BOOL, default=False),
                Field("duration", Kind.FLOAT64, 0, default=0.0, unit="s", doc="of a valid recipe"),
                Field("findings", Kind.JSON, default=[]),
            ),
            only_reads=True,
            doc="Check a recipe: all errors and warnings. `valid` is true without an error.",
        )
        node.serve(
            f"{environment}/recipe_plan",
            "growd/RecipePlan",
            self._answer_plan,
            arguments=(
                Field("recipe_id", Kind.STRING, default="", doc="by default the running recipe"),
                _DOCUMENT,
                _START,
            ),
            reply=(
                *SUCCESS,
                Field("plan", Kind.JSON, default=None),
                Field("findings", Kind.JSON, default=[]),
            ),
            only_reads=True,
            doc="The plan of a recipe: phases, set points, their values over time to draw, and the changes "
            "of the next 24 h. Errors and warnings are in `findings`.",
        )

    async def _answer_check(self, recipe_id: str, recipe: Any) -> dict[str, Any]:
        try:
            document = recipe if recipe is not None else await self._library.read(recipe_id)
            duration, wrong, findings = await self._compute(_checked_duration, document, self._library.reach)
        except RecipeRefusedError as error:
            return {"success": False, "message": str(error)}
        return {
            "success": True,
            "message": f"{counted(wrong, 'error')}, {counted(len(findings) - wrong, 'warning')}",
            "valid": not wrong,
            "duration": duration,
            "findings": msgspec.to_builtins(findings),
        }

    async def _answer_plan(self, recipe_id: str, recipe: Any, start: float) -> dict[str, Any]:
        try:
            if not recipe_id and recipe is None:
                return await self._plan_of_running()
            if recipe is None:
                recipe = await self._library.read(recipe_id)
            elif not recipe_id and isinstance(recipe, dict):
                recipe_id = str(recipe.get("_id", ""))
            begin = start or self._clock.time()
            plan, errors, findings = await self._compute(
                _checked_plan, recipe_id, recipe, self._library.reach, begin, self._zone
            )
        except RecipeRefusedError as error:
            return {"success": False, "message": str(error)}
        name = f"the recipe {recipe_id}" if recipe_id else "the recipe"
        if plan is None:
            sentences = "; ".join(map(str, errors))
            answer = {"success": False, "message": f"{name} is not valid: {sentences}"}
        else:
            answer = {"success": True, "message": f"the plan of {recipe_id or name}", "plan": plan}
        return answer | {"findings": msgspec.to_builtins(findings)}

    async def _plan_of_running(self) -> dict[str, Any]:
        active, now = self._running(), self._clock.time()
        if active is None:
            return {"success": False, "message": "no recipe is running; give a recipe_id"}
        state = active.state()
        of: Order | Run
        if isinstance(active, WaitingStart):
            of, start = active.order, active.order.at - active.order.offset
        else:
            of, now = active.run, active.position.wall()
            start = now - active.elapsed()
        draw = functools.partial(_drawn, state=state["state"], elapsed=state["elapsed"], now=now)
        plan = await self._compute(draw, of.recipe_id, of.recipe, start, self._zone)
        return {"success": True, "message": f"the plan of {of.recipe_id}", "plan": plan}

    async def _compute(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a thread, one at a time. Raises `RecipeRefusedError` if many calls wait.

        A page calls these services while a person types, and a call can't be stopped once it runs.
        """
        if self._calls >= MAX_CALLS:
            raise RecipeRefusedError(f"{MAX_CALLS} recipes are being checked or drawn; try again")
        self._calls += 1
        try:
            async with self._one_at_a_time:
                work = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
                try:
                    return await asyncio.shield(work)
                except asyncio.CancelledError:
                    await asyncio.wait({work})
                    raise
        finally:
            self._calls -= 1


# These run in threads, and import what an environment without a recipe does not need.


def _checked_duration(recipe: Any, reach: Reach | None) -> tuple[float, int, list[RecipeFinding]]:
    """How long the recipe lasts, 0 if there are errors; the number of errors, and all findings."""
    from growd.recipes.findings import errors  # noqa: PLC0415
    from growd.recipes.interpreter import FORMATS, check  # noqa: PLC0415

    findings = check(recipe, reach)
    wrong = len(errors(findings))
    return 0.0 if wrong else FORMATS[recipe["format"]].plan(recipe).duration, wrong, findings


def _checked_plan(
    recipe_id: str, recipe: Any, reach: Reach | None, start: float, zone: tzinfo | None
) -> tuple[dict[str, Any] | None, list[RecipeFinding], list[RecipeFinding]]:
    """The plan, None if there are errors; the errors, and all findings."""
    from growd.recipes.findings import errors  # noqa: PLC0415
    from growd.recipes.interpreter import check  # noqa: PLC0415

    findings = check(recipe, reach)
    wrong = errors(findings)
    return None if wrong else _drawn(recipe_id, recipe, start, zone), wrong, findings


def _drawn(recipe_id: str, recipe: Any, start: float, zone: tzinfo | None, **state: Any) -> dict[str, Any]:
    from growd_analysis.recipes.drawing import plan_of  # noqa: PLC0415

    return plan_of(recipe_id, recipe, start, zone, **state)
