"""Simulations of recipes in the configured chambers."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from growd.config import chambers_of
from growd.recipes.library import Library
from growd.runs.simulation import FOLDER, RecipeSimulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from growd.bus import Bus
    from growd.config import Config
    from growd.store.database import Database


@contextlib.asynccontextmanager
async def recipe_simulation(
    present: Callable[[], Config], bus: Bus, data: Path, database: Database
) -> AsyncIterator[RecipeSimulation]:
    """Simulates recipes for the body. `present` returns the configuration in force."""
    simulation = RecipeSimulation(bus, data / FOLDER)
    await asyncio.to_thread(simulation.clear)
    for chamber in chambers_of(present()):
        library = Library(database.recipe, chamber.reach_of_recipes(), zone=None)
        simulation.serve(chamber.environment, library, partial(_written, present, chamber.environment))
    try:
        yield simulation
    finally:
        simulation.node.close()  # no other one begins
        await simulation.close()


def _written(present: Callable[[], Config], environment: str) -> str:
    from growd.config.writing import simulated_chamber  # noqa: PLC0415  few simulate: it takes memory

    return simulated_chamber(present(), environment)
