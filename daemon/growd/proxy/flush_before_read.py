"""Sends waiting points to the database before a client reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.proxy.gateway import first_segment
from growd.server.client_request import split_target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from aiohttp import web

    from growd.server.client_request import RequestHandler


class FlushBeforeRead:
    """Lets `database` handle requests, those for `databases` within `reading()`.

    Points wait for a batch to spare the card; a reader, and a feed while it is open, must see them anyway.
    `reading` is called with True for a feed from now on. It gets waiting points as changes: points that were
    sent before it begins would be neither in the feed nor in the view that its client has read.
    """

    def __init__(
        self,
        database: RequestHandler,
        databases: Collection[str],
        reading: Callable[[bool], AbstractAsyncContextManager[None]],
    ) -> None:
        self._database = database
        self._databases = databases
        self._reading = reading

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        if first_segment(request) not in self._databases:
            return await self._database.handle(request)
        async with self._reading(_begins_now(request.raw_path)):
            return await self._database.handle(request)


def _begins_now(target: str) -> bool:
    """Whether a target is a feed of the changes from now on."""
    path, query = split_target(target)
    return path.endswith("/_changes") and "since=now" in query.split("&")
