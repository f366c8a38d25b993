"""What a run is in an experiment: the members of `study`, of a recipe and at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from growd.recipes.errors import RecipeRefusedError
from growd.recipes.grammar import STUDY, fitting

if TYPE_CHECKING:
    from collections.abc import Mapping


def study_of(recipe: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """The members of a valid recipe's `study`, and those that were `given` at the start, which win.

    Raises `RecipeRefusedError` if what was given is invalid.
    """
    if errors := fitting({"properties": {"study": STUDY}}, {"study": given})[1]:
        raise RecipeRefusedError("; ".join(map(str, errors)))
    return {**recipe.get("study", {}), **given}
