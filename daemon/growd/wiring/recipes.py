"""Builds the recipe runner of each environment from the configuration."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from growd.config import chambers_of
from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.runs.circumstances import circumstances
from growd.store.journal import RunJournal, SetPointKeeper
from growd.store.points import PointMaker
from growd.store.run_documents import RunDocuments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Config
    from growd.store.database import Database
    from growd.store.local import LocalStore
    from growd.store.outbox import Outbox


def recipe_runners(
    present: Callable[[], Config],
    bus: Bus,
    *,
    local: LocalStore,
    outbox: Outbox,
    database: Database,
    zone: tzinfo | None,
    documents: RunDocuments,
    why_held: Callable[[], str] = lambda: "",
) -> Iterator[RecipeRunner]:
    """The runner of each environment; `documents` sends the records of their runs to the database.

    `present` returns the configuration as it is in force, also after a reload.
    """
    maker = PointMaker(local.device)
    for chamber in chambers_of(present()):
        environment, options = chamber.environment, chamber.options
        keeps = options.environment.keep_set_points
        yield RecipeRunner(
            bus,
            environment,
            library=Library(database.recipe, chamber.reach_of_recipes(), zone),
            journal=RunJournal(local, outbox, maker, environment, documents.look_now),
            set_points=SetPointKeeper(local, environment) if keeps else None,
            zone=zone,
            about=partial(_about, present, bus, environment),
            why_held=why_held,
            catches_up=options.recipe.after_outage == "where_it_would_be",
        )


def _about(present: Callable[[], Config], bus: Bus, environment: str) -> dict[str, Any]:
    return circumstances(present(), bus, environment)


def run_documents(
    bus: Bus, local: LocalStore, database: Database, written: Callable[[], None]
) -> RunDocuments:
    """Sends the records of all runs to the database; `written` is called when it has them."""
    documents = RunDocuments(
        local,
        database.couch,
        bus.clock,
        database=database.names.runs,
        prepare=database.prepare,
        written=written,
    )
    database.when_up(documents.look_now)
    return documents
