"""The part of a running daemon that simulates recipes in the configured chambers."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from growd.api.operation import Call, Operation
from growd.config import chambers_of
from growd.recipes.library import Library
from growd.server.errors import ApiError
from growd_analysis.runs.calls import report_page
from growd_simulation.recipes.service import FOLDER, RecipeSimulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp import web

    from growd.api.api import Api
    from growd.config import Config
    from growd.parts import Surroundings


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Simulate recipes for the body."""
    simulation = RecipeSimulation(around.bus, around.data / FOLDER)
    await asyncio.to_thread(simulation.clear)
    for chamber in chambers_of(around.present()):
        library = Library(around.database.recipe, chamber.reach_of_recipes())
        environment = chamber.environment
        simulation.serve(environment, library, partial(_written, around.present, environment))
    around.api.offer([report_operation(simulation)])
    try:
        yield
    finally:
        simulation.node.close()  # no other one begins
        await simulation.close()


def report_operation(simulation: RecipeSimulation) -> Operation:
    """The call of the API that reads the report of the last simulation."""

    async def read(_: Api, __: Call) -> web.StreamResponse:
        if simulation.report is None:
            sentence = "there is no report of a simulation; the node simulator/recipe has its state"
            raise ApiError(404, "not_found", sentence)
        return report_page(simulation.report)

    return Operation(
        "GET", "simulation_report", "", "Read the report of the last simulation of a recipe", read,
        answer="page", refusals=(404,),
    )  # fmt: skip


def _written(present: Callable[[], Config], environment: str) -> str:
    from growd_simulation.recipes.configuration import simulated_chamber  # noqa: PLC0415  few simulate: it takes memory

    return simulated_chamber(present(), environment)
