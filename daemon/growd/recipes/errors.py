"""Errors of recipes and of running them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from growd.recipes.findings import RecipeFinding


class InvalidRecipeError(ValueError):
    """A recipe with errors; `findings` has all of them."""

    def __init__(self, findings: list[RecipeFinding]) -> None:
        super().__init__("; ".join(str(finding) for finding in findings))
        self.findings = findings


class RecipeRefusedError(RuntimeError):
    """A request that can't be done now; the message says why."""
