"""The part of a running daemon that is the bridge to home automation."""

from __future__ import annotations

import contextlib
import platform
from functools import partial
from typing import TYPE_CHECKING, Final

from growd import __version__
from growd.config import chambers_of
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.parts import Surroundings
    from growd.store.database import Database

INTERVAL_S: Final = 5.0
"""Between two messages on a topic."""

_DISCOVERY: Final = "homeassistant"  # the default of Home Assistant's discovery prefix
_MOST_RECIPES = 200  # that can be chosen


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Publish the state at the broker of [mqtt] for the body, if that is configured."""
    config = around.present()
    options = config.mqtt
    if not options.publish or around.mqtt is None:
        yield
        return
    from growd_home.bridge import Bridge  # noqa: PLC0415  imported only if configured
    from growd_home.discovery import Discovery  # noqa: PLC0415  likewise
    from growd_home.layout import HomePlace, TopicNames  # noqa: PLC0415  likewise

    topics = TopicNames(options.topic, around.device)
    host = platform.node() or around.device
    bridge = Bridge(
        around.bus,
        around.mqtt,
        topics,
        [HomePlace.of(chamber) for chamber in chambers_of(config)],
        look_up=around.status.look_up,
        snapshot=around.status.snapshot,
        recipes=partial(_recipe_ids, around.database),
        interval_s=INTERVAL_S,
        discovery=Discovery(_DISCOVERY, topics, host, __version__, commands=options.commands),
        commands=options.commands,
    )
    async with Supervisor(RealClock(), around.bus.liveness) as supervisor:
        supervisor.start(bridge.node.name, bridge.run)
        yield


async def _recipe_ids(database: Database) -> list[str]:
    """The ids of the first recipes. Raises OSError or RuntimeError."""
    name = database.names.recipes
    before = await database.couch.all_docs(name, endkey="_design/", limit=_MOST_RECIPES)
    after = await database.couch.all_docs(name, startkey="_design0", limit=_MOST_RECIPES)
    return [row["id"] for row in (*before, *after)][:_MOST_RECIPES]
