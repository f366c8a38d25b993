"""The part of a running daemon that checks recipes and draws their plans."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from growd.config import chambers_of
from growd.recipes.library import Library
from growd_analysis.recipes.desk import RecipeDesk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.parts import Surroundings
    from growd.recipes.status import ActiveRun
    from growd.recipes.waiting import WaitingStart


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Offer the services of all environments for the body."""
    config = around.present()
    zone = await asyncio.to_thread(config.environment.zone)
    node = around.bus.node("recipe_plans")
    for chamber in chambers_of(config):
        library = Library(around.database.recipe, chamber.reach_of_recipes())
        running = partial(_running, around, chamber.environment)
        RecipeDesk(node, chamber.environment, library, clock=around.bus.clock, zone=zone, running=running)
    try:
        yield
    finally:
        node.close()


def _running(around: Surroundings, environment: str) -> ActiveRun | WaitingStart | None:
    runner = around.runners.get(environment)
    return None if runner is None else runner.active
