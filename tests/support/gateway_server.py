"""A gateway that listens, as the daemon has it, in front of what a test names."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from growd.http.gateway import SERVER_OPTIONS, Gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from growd.http.server import Passage


@asynccontextmanager
async def gateway_to(
    base: str | Gateway | None,
    *,
    stall_limit: float = 300.0,
    behind: Callable[[Gateway], Passage] = lambda gateway: gateway,
) -> AsyncIterator[int]:
    """The port of a gateway to the database at `base` (None: there is none), and of what it is `behind`."""
    gateway = base if isinstance(base, Gateway) else Gateway(lambda: base, stall_limit=stall_limit)
    runner = web.ServerRunner(
        web.Server(behind(gateway).handle, access_log=None, **SERVER_OPTIONS), shutdown_timeout=0.1
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
        await gateway.close()
