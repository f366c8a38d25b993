"""A server with a handler of a test."""

from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def serving_http(handler, *, port=0, tls=None):
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
