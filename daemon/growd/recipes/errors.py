"""What can be wrong with a recipe, and with running one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from growd.recipes.findings import RecipeFinding


class RecipeError(Exception):
    """Base of all errors of recipes."""


class InvalidRecipeError(RecipeError, ValueError):
    """A recipe with errors: `findings` has all of them, each with its place."""

    def __init__(self, findings: list[RecipeFinding]) -> None:
        super().__init__("; ".join(str(finding) for finding in findings))
        self.findings = findings


class RecipeRefusedError(RecipeError, RuntimeError):
    """A start or a stop that can't be done; the sentence says why."""
