"""The part of a running daemon that serves metrics for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from growd.runtime.event_loop import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.api.operations import Api
    from growd.parts import Surroundings
    from growd.status.status_node import StatusNode


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Serve the metrics for the body."""
    add_metrics(around.api, around.status)
    yield


def add_metrics(api: Api, status: StatusNode) -> None:
    """Serve the metrics of `status` beside `api`."""
    rendering = asyncio.Lock()  # one at a time, since each takes a thread and CPU time
    api.pages[f"{api.root}/metrics"] = partial(_serve, status, rendering)


async def _serve(status: StatusNode, rendering: asyncio.Lock, request: web.BaseRequest) -> web.StreamResponse:
    await load("growd_home.metrics")
    from growd_home.metrics import render  # noqa: PLC0415  prometheus_client takes 0.1 s to import

    async with rendering:
        await status.look_up()
        accept = request.headers.get("Accept", "")
        body, content_type = await asyncio.to_thread(render, status.snapshot(), accept)
    return web.Response(body=body, headers={"Content-Type": content_type})
