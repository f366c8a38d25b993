"""Interprets recipes, with what only a chamber needs whose recipe runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from growd.recipes.findings import RecipeFinding
    from growd.recipes.formats import Reach
    from growd.recipes.plan import Plan


def interpreted(recipe: Any, reach: Reach | None) -> tuple[Plan, list[RecipeFinding]]:
    """As `interpreter.interpret`. Blocking: call it in a thread, which also imports all that a run needs."""
    from growd.recipes import changes, interpreter  # noqa: F401, PLC0415

    return interpreter.interpret(recipe, reach)
