"""The recipes in the database: read, and checked for the environment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from growd.recipes.formats import InvalidRecipeError, NoDatabaseError, RecipeRefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.recipes.findings import RecipeFinding
    from growd.recipes.formats import Reach
    from growd.recipes.plan import Plan

MAX_ID: Final = 200  # characters
FETCH_S: Final = 5.0  # in real time, also with a simulated clock: the database is real


class Library:
    """Reads recipes with `fetch`; checks them against `reach`, the range of the actuators (None: any).

    `fetch(recipe_id)` returns the recipe document, with the `_conflicts` of the database. It raises
    LookupError if there is none, and OSError or RuntimeError if the database fails.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[dict[str, Any]]], reach: Reach | None) -> None:
        self._fetch = fetch
        self.reach = reach

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
            sentence = f"the recipe {recipe_id} can't be read from the database: {why}"
            raise NoDatabaseError(sentence) from error

    async def interpret(self, recipe_id: str, recipe: dict[str, Any]) -> tuple[Plan, list[RecipeFinding]]:
        """The plan of a recipe and the warnings. Raises `RecipeRefusedError` with all errors.

        Removes `_conflicts`, which are of the database, so that runs do not keep them.
        """
        try:
            # in a thread: a large recipe takes too long for the event loop
            found = await asyncio.to_thread(interpreted, recipe, self.reach)
        except InvalidRecipeError as error:
            raise RecipeRefusedError(f"the recipe {recipe_id} is not valid: {error}") from error
        recipe.pop("_conflicts", None)
        return found


def _check_id(recipe_id: str) -> None:
    if not recipe_id or len(recipe_id) > MAX_ID or not recipe_id.isprintable() or recipe_id.startswith("_"):
        raise RecipeRefusedError(
            f"recipe_id: expected 1 to {MAX_ID} printable characters, not beginning with _, "
            f"got {recipe_id[:MAX_ID]!r}"
        )


def interpreted(recipe: Any, reach: Reach | None) -> tuple[Plan, list[RecipeFinding]]:
    """As `interpreter.interpret`. Blocking: call it in a thread, which also imports all that a run needs."""
    from growd.recipes import changes, interpreter  # noqa: F401, PLC0415

    return interpreter.interpret(recipe, reach)
