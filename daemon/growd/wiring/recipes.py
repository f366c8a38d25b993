"""The recipe runner of each environment, built from the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.store.journal import RunJournal, SetPointKeeper
from growd.store.points import PointMaker
from growd.store.run_documents import RunDocuments
from growd.variables import CARBON_DIOXIDE, ILLUMINANCE, VALVE
from growd.wiring.sensors import SENSOR_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd import config
    from growd.bus import Bus
    from growd.config import Config
    from growd.recipes.interpreter import Reach
    from growd.store.database import Database
    from growd.store.local import LocalStore
    from growd.store.outbox import Outbox


def recipe_runners(
    settings: Config,
    bus: Bus,
    *,
    local: LocalStore,
    outbox: Outbox,
    database: Database,
    zone: tzinfo | None,
    documents: RunDocuments,
) -> Iterator[RecipeRunner]:
    """One for each environment; `documents` brings what is told of their runs into the database."""
    maker = PointMaker(local.device)
    for environment, chamber in settings.chambers().items():
        keeps = chamber.environment.keep_set_points
        yield RecipeRunner(
            bus,
            environment,
            library=Library(database.recipe, reach_of(chamber), zone),
            journal=RunJournal(local, outbox, maker, environment, documents.look_now),
            set_points=SetPointKeeper(local, environment) if keeps else None,
            zone=zone,
            catches_up=chamber.recipe.after_outage == "where_it_would_be",
        )


def run_documents(bus: Bus, local: LocalStore, database: Database) -> RunDocuments:
    """What brings the documents of all runs into the database."""
    documents = RunDocuments(
        local, database.couch, bus.clock, database=database.names.runs, prepare=database.prepare
    )
    database.when_up(documents.look_now)
    return documents


def reach_of(chamber: config.ChamberOptions) -> Reach:
    """The lowest and highest set point that the actuators of an environment can be asked for, by variable."""
    reach: Reach = {}
    if chamber.light.enabled:
        reach[ILLUMINANCE] = (0.0, chamber.light.full_scale_lux)
        reach |= {f"light_intensity_{channel.name}": (0.0, 1.0) for channel in chamber.light.channel}
    reach |= {relay.variable: (0.0, 1.0) for relay in chamber.relay}
    kinds = [SENSOR_KINDS[sensor.kind] for sensor in chamber.sensor]
    if VALVE in reach and any(CARBON_DIOXIDE in kind.variables.values() for kind in kinds):
        reach[CARBON_DIOXIDE] = (0.0, chamber.interlock.ceiling_ppm)
    return reach
