"""A gateway that listens, as the daemon has it, in front of what a test names."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

from aiohttp import web

from growd.proxy.gateway import Gateway
from growd.server.client_limits import Clients
from growd.server.client_request import ClientRequest, add_own_headers
from growd.server.connections import AIOHTTP_OPTIONS
from growd.server.json_answer import JsonAnswer
from support.raw_http import RawUpstream, raw_client


@asynccontextmanager
async def gateway_to(base, *, stall_limit=300.0, behind=lambda gateway: gateway, clients=None):
    """The port of a gateway to the database at `base` (None: there is none), and of what it is `behind`."""
    gateway = base if isinstance(base, Gateway) else Gateway(lambda: base, stall_limit=stall_limit)
    handler, clients = behind(gateway), clients or Clients()

    async def handle(request):
        clients.recognise(request)
        response = await handler.handle(request)
        if not (response.prepared or isinstance(response, JsonAnswer)):
            add_own_headers(request, response.headers)
        return response

    make_request = partial(ClientRequest, loop=asyncio.get_running_loop())
    server = web.Server(handle, request_factory=make_request, handler_cancellation=True, **AIOHTTP_OPTIONS)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
        await gateway.close()


@asynccontextmanager
async def gateway_before(script, *, stall_limit=300.0):
    """A server that does what `script` says, and a client of the gateway to it."""
    async with (
        RawUpstream(script) as upstream,
        gateway_to(upstream.url, stall_limit=stall_limit) as port,
        raw_client(port) as client,
    ):
        yield upstream, client
