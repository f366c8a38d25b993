"""A status in a word or a line: health, readiness, and the status line of the systemd service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.bus.errors import counted
from growd.control.health import State
from growd.runtime.text import moment
from growd.status.notices import notices_of
from growd.status.verdict import verdict_of

if TYPE_CHECKING:
    from growd.status.model import RecipeStatus, Status


_LEADS: Final = {"held": "HELD: ", "trouble": "FAILED: ", "attention": "warning: "}


def health(status: Status) -> str:
    """What does not work: "stuck" loops, "failing" parts, "unsafe" outputs, "losing points"; else empty."""
    if status.stuck:
        return "stuck"
    if any(component.is_failing for component in status.components):
        return "failing"
    if status.has_unsafe_output:
        return "unsafe"
    return "losing points" if status.store is not None and status.store.is_losing else ""


def readiness(status: Status) -> str:
    """Why growd is not ready to be used, "starting" or "stopping"; empty while it is.

    A database that is away does not count: points wait for it.
    """
    return "" if status.stage == "running" else status.stage


def service_line(status: Status) -> str:
    """Such as "All well: 8 of 8 values at set point; 2 of 3 devices well; 0 points waiting"."""
    well = sum(device.state == State.OK for device in status.devices)
    devices = f"{well} of {counted(len(status.devices), 'device')} well"
    waiting = 0 if status.store is None else status.store.waiting
    recipes = [_recipe(recipe) for recipe in status.recipes if recipe.state != "idle"]
    points = f"{counted(waiting, 'point')} waiting"
    if status.store is not None and status.store.shipping:
        points += f", the database stores no points: {status.store.shipping}"
    verdict = verdict_of(status, notices_of(status))
    lead = _LEADS.get(verdict.state, "")
    return "; ".join([f"{lead}{verdict.line}", devices, *recipes, points])


def _recipe(recipe: RecipeStatus) -> str:
    if recipe.state == "waiting":
        return f"recipe {recipe.recipe_id} waits until {moment(recipe.starts_at)}"
    place = f" in phase {recipe.phase}" if recipe.phase else ""
    return f"recipe {recipe.recipe_id}{place}{' (paused)' if recipe.state == 'paused' else ''}"
