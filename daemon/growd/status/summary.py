"""A status in a word or a line: health, readiness, and the status line of the systemd service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.bus.errors import counted
from growd.control.health import State
from growd.runtime.text import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.status.model import RecipeStatus, Status


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
    """Such as "2 of 3 devices well; recipe lettuce in phase 2; 0 points waiting".

    A hold and the first failure come first: "FAILED: the data folder is gone (and 1 more); ...".
    """
    well = sum(device.state == State.OK for device in status.devices)
    devices = f"{well} of {counted(len(status.devices), 'device')} well"
    waiting = 0 if status.store is None else status.store.waiting
    recipes = [_recipe(recipe) for recipe in status.recipes if recipe.state != "idle"]
    points = f"{counted(waiting, 'point')} waiting"
    if status.store is not None and status.store.shipping:
        points += f", the database stores no points: {status.store.shipping}"
    held = [f"HELD: {hold}" for hold in status.held]
    return "; ".join([*held, *_failure(status), devices, *recipes, points])


def _failure(status: Status) -> Iterator[str]:
    """The first failure, and how many more there are."""
    if failures := status.failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        yield f"FAILED: {failures[0]}{more}"


def _recipe(recipe: RecipeStatus) -> str:
    if recipe.state == "waiting":
        return f"recipe {recipe.recipe_id} waits until {moment(recipe.starts_at)}"
    place = f" in phase {recipe.phase}" if recipe.phase else ""
    return f"recipe {recipe.recipe_id}{place}{' (paused)' if recipe.state == 'paused' else ''}"
