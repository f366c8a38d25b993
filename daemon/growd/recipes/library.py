"""The recipes in the database: read, checked for the environment, and drawn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import counted
from growd.bus.fields import Field, Kind
from growd.bus.services import SUCCESS
from growd.recipes.drawing import plan_of
from growd.recipes.errors import InvalidRecipeError, RecipeRefusedError
from growd.recipes.findings import errors
from growd.recipes.interpreter import check, interpret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import tzinfo

    from growd.bus import Node
    from growd.recipes.findings import RecipeFinding
    from growd.recipes.interpreter import Reach
    from growd.recipes.plan import Plan
    from growd.recipes.status import ActiveRun
    from growd.runtime.clock import Clock

MAX_ID: Final = 200  # characters
FETCH_S: Final = 5.0  # in real time, also with a simulated clock: the database is real
_ID: Final = Field("recipe_id", Kind.STRING, doc="the id of a document in the database recipes")


class Library:
    """Reads recipes with `fetch`; checks them against `reach`, the range of the actuators (None: any).

    `fetch(recipe_id)` returns the recipe document. It raises LookupError if there is none, and OSError or
    RuntimeError if the database fails.

    Services: `<environment>/check_recipe` returns the errors and warnings on a recipe, from the database or
    in the request; `<environment>/recipe_plan` returns the plan of a recipe, by default of the running one.
    """

    def __init__(
        self, fetch: Callable[[str], Awaitable[dict[str, Any]]], reach: Reach | None, zone: tzinfo | None
    ) -> None:
        self._fetch = fetch
        self.reach = reach
        self._zone = zone

    def serve(
        self, node: Node, environment: str, clock: Clock, running: Callable[[], ActiveRun | None]
    ) -> None:
        """Offer the services on `node`; `running` returns the active run."""
        self._clock = clock
        self._running = running
        node.serve(
            f"{environment}/check_recipe",
            "growd/CheckRecipe",
            self._answer_check,
            arguments=(
                Field("recipe_id", Kind.STRING, default="", doc=_ID.doc),
                Field("recipe", Kind.JSON, default=None, doc="a recipe document, instead of recipe_id"),
            ),
            reply=(
                *SUCCESS,
                Field("valid", Kind.BOOL, default=False),
                Field("findings", Kind.JSON, default=[]),
            ),
            doc="Check a recipe: all errors and warnings. `valid` is true without an error.",
        )
        node.serve(
            f"{environment}/recipe_plan",
            "growd/RecipePlan",
            self._answer_plan,
            arguments=(Field("recipe_id", Kind.STRING, default="", doc="by default the running recipe"),),
            reply=(*SUCCESS, Field("plan", Kind.JSON, default=None)),
            doc="The plan of a recipe: phases, set points, and their values over time, to draw.",
        )

    async def read(self, recipe_id: str) -> dict[str, Any]:
        """The document of a recipe. Raises `RecipeRefusedError`."""
        _check_id(recipe_id)
        try:
            async with asyncio.timeout(FETCH_S) as limit:
                return await self._fetch(recipe_id)
        except LookupError:
            raise RecipeRefusedError(f"there is no recipe {recipe_id}") from None
        except (OSError, RuntimeError) as error:  # a TimeoutError is an OSError
            why = f"no answer within {FETCH_S:g} s" if limit.expired() else str(error)
            raise RecipeRefusedError(
                f"the recipe {recipe_id} can't be read from the database: {why}"
            ) from error

    async def interpret(self, recipe_id: str, recipe: dict[str, Any]) -> tuple[Plan, list[RecipeFinding]]:
        """The plan of a recipe and the warnings. Raises `RecipeRefusedError` with all errors."""
        try:
            # in a thread: a large recipe takes too long for the event loop
            return await asyncio.to_thread(interpret, recipe, self.reach)
        except InvalidRecipeError as error:
            raise RecipeRefusedError(f"the recipe {recipe_id} is not valid: {error}") from error

    async def _answer_check(self, recipe_id: str, recipe: Any) -> dict[str, Any]:
        try:
            document = recipe if recipe is not None else await self.read(recipe_id)
        except RecipeRefusedError as error:
            return {"success": False, "message": str(error)}
        findings = await asyncio.to_thread(check, document, self.reach)
        wrong = len(errors(findings))
        message = f"{counted(wrong, 'error')}, {counted(len(findings) - wrong, 'warning')}"
        return {
            "success": True,
            "message": message,
            "valid": not wrong,
            "findings": msgspec.to_builtins(findings),
        }

    async def _answer_plan(self, recipe_id: str) -> dict[str, Any]:
        active = self._running()
        if not recipe_id and active is None:
            return {"success": False, "message": "no recipe is running; give a recipe_id"}
        try:
            if active is not None and not recipe_id:
                recipe_id, recipe = active.run.recipe_id, active.run.recipe
                start = active.position.wall() - active.elapsed()
            else:
                recipe, start = await self.read(recipe_id), self._clock.time()
            await self.interpret(recipe_id, recipe)
            plan = await asyncio.to_thread(plan_of, recipe_id, recipe, start, self._zone)
        except RecipeRefusedError as error:
            return {"success": False, "message": str(error)}
        return {"success": True, "message": f"the plan of {recipe_id}", "plan": plan}


def _check_id(recipe_id: str) -> None:
    if not recipe_id or len(recipe_id) > MAX_ID or not recipe_id.isprintable() or recipe_id.startswith("_"):
        raise RecipeRefusedError(
            f"recipe_id: expected 1 to {MAX_ID} printable characters, not beginning with _, "
            f"got {recipe_id[:MAX_ID]!r}"
        )
