"""The parts of a running daemon for programs at home: the bridge by MQTT, Prometheus and rosbridge."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web

from growd import __version__
from growd.config import chambers_of
from growd.config.mqtt import MQTT_ROOT
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import load
from growd.runtime.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.api.api import Api
    from growd.parts import Surroundings
    from growd.status.status_node import StatusNode
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

    topics = TopicNames(MQTT_ROOT, around.device)
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


@contextlib.asynccontextmanager
async def prometheus(around: Surroundings) -> AsyncIterator[None]:
    """Serve metrics for Prometheus for the body."""
    add_metrics(around.api, around.status)
    yield


def add_metrics(api: Api, status: StatusNode) -> None:
    """Serve the metrics of `status` beside `api`."""
    rendering = asyncio.Lock()  # one at a time, since each takes a thread and CPU time

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        await load("growd_home.metrics")
        from growd_home.metrics import render  # noqa: PLC0415  prometheus_client takes 0.1 s to import

        async with rendering:
            await status.look_up()
            accept = request.headers.get("Accept", "")
            body, content_type = await asyncio.to_thread(render, status.snapshot(), accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    api.pages[f"{api.root}/metrics"] = serve


@contextlib.asynccontextmanager
async def rosbridge(around: Surroundings) -> AsyncIterator[None]:
    """Serve rosbridge, for pages made with roslibjs, for the body."""
    add_rosbridge(around.api)
    yield


def add_rosbridge(api: Api) -> None:
    """Serve rosbridge beside `api`."""

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        from growd_home.rosbridge import serve_rosbridge  # noqa: PLC0415  most growds never need it

        return await serve_rosbridge(api, request)

    api.pages[f"{api.root}/rosbridge"] = serve
