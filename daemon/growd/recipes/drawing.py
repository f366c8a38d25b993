"""The plan of a recipe as a page or a figure shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import tzinfo


def plan_of(recipe_id: str, recipe: dict[str, Any], start_wall: float, zone: tzinfo | None) -> dict[str, Any]:
    """The plan of a recipe that starts at a UNIX time."""
    return {"recipe_id": recipe_id, "format": recipe["format"]}
