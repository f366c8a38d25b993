"""A server with a handler of a test."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from ssl import SSLContext

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving_http(
    handler: Handler | web.Application, *, port: int = 0, tls: SSLContext | None = None
) -> AsyncIterator[str]:
    """The address of the server."""
    is_application = isinstance(handler, web.Application)
    runner = web.AppRunner(handler) if is_application else web.ServerRunner(web.Server(handler))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        origin = "https://localhost" if tls else "http://127.0.0.1"
        yield f"{origin}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
