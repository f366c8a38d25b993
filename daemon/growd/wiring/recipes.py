"""Builds the recipe runner of each environment from the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from growd.config import chambers_of
from growd.recipes.circumstances import circumstances
from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.recipes.services import RecipeServices
from growd.store.journal import RunJournal, SetPointKeeper
from growd.store.points import PointMaker
from growd.store.run_documents import RunDocuments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber, Config
    from growd.recipes.run import Journal
    from growd.wiring.store import Core


def recipe_runners(
    core: Core, documents: RunDocuments, why_held: Callable[[], str] = lambda: ""
) -> Iterator[RecipeRunner]:
    """The runner of each environment; `documents` sends the records of their runs to the database."""
    local, outbox, maker = core.local, core.storage.outbox, PointMaker(core.local.device)
    for chamber in chambers_of(core.config):
        environment = chamber.environment
        keeps = chamber.options.environment.keep_set_points
        yield recipe_runner(
            chamber,
            core.present,
            core.bus,
            fetch=core.database.recipe,
            journal=RunJournal(local, outbox, maker, environment, documents.work.wake),
            set_points=SetPointKeeper(local, environment) if keeps else None,
            zone=core.zone,
            why_held=why_held,
        )


def recipe_runner(
    chamber: Chamber,
    present: Callable[[], Config],
    bus: Bus,
    *,
    fetch: Callable[[str], Awaitable[dict[str, Any]]],
    journal: Journal,
    set_points: SetPointKeeper | None = None,
    zone: tzinfo | None,
    why_held: Callable[[], str] = lambda: "",
) -> RecipeRunner:
    """The runner of one environment; `fetch` reads recipes (see `Library`)."""
    environment, library = chamber.environment, Library(fetch, chamber.reach_of_recipes())
    runner = RecipeRunner(
        bus,
        environment,
        library=library,
        journal=journal,
        set_points=set_points,
        zone=zone,
        about=lambda: circumstances(present(), bus, environment),
        catches_up=chamber.options.recipe.after_outage == "where_it_would_be",
    )
    RecipeServices(runner, environment, library, bus.clock, zone, why_held=why_held)
    return runner


def run_documents(core: Core, runners: Mapping[str, RecipeRunner]) -> RunDocuments:
    """Sends the records of all runs to the database."""
    database = core.database
    documents = RunDocuments(
        core.local,
        database.couch,
        core.bus.clock,
        database=database.names.runs,
        prepare=database.prepare,
        going=lambda: {each.run_id: each.record_again for each in runners.values() if each.run_id},
    )
    database.when_up(documents.work.retry_now)
    return documents
