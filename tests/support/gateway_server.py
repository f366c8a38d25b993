"""A gateway that listens, as the daemon has it, in front of what a test names."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from growd.proxy.gateway import Gateway
from growd.server.client_limits import Clients
from growd.server.client_request import ClientRequest, add_own_headers
from growd.server.connections import AIOHTTP_OPTIONS
from growd.server.json_answer import JsonAnswer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from growd.server.client_request import RequestHandler


@asynccontextmanager
async def gateway_to(
    base: str | Gateway | None,
    *,
    stall_limit: float = 300.0,
    behind: Callable[[Gateway], RequestHandler] = lambda gateway: gateway,
) -> AsyncIterator[int]:
    """The port of a gateway to the database at `base` (None: there is none), and of what it is `behind`."""
    gateway = base if isinstance(base, Gateway) else Gateway(lambda: base, stall_limit=stall_limit)
    handler, clients = behind(gateway), Clients()

    async def handle(request: ClientRequest) -> web.StreamResponse:
        clients.recognise(request)
        response = await handler.handle(request)
        if not (response.prepared or isinstance(response, JsonAnswer)):
            add_own_headers(request, response.headers)
        return response

    def recognisable(*parts: Any) -> ClientRequest:
        return ClientRequest(*parts, asyncio.get_running_loop())

    server = web.Server(handle, request_factory=recognisable, handler_cancellation=True, **AIOHTTP_OPTIONS)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
        await gateway.close()
