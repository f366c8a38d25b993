"""Who reads the points through the front door finds them in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.http.gateway import first_segment

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from aiohttp import web

    from growd.http.server import Passage


class Freshness:
    """Hands requests on to `passage`, those for the database `points` within `reading()`.

    Points wait before they are shipped, so that the card is spared; a reader, or a feed for as long as it
    lasts, is to see them all the same.
    """

    def __init__(
        self, passage: Passage, points: str, reading: Callable[[], AbstractAsyncContextManager[None]]
    ) -> None:
        self._passage = passage
        self._points = points
        self._reading = reading

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        if first_segment(request) != self._points:
            return await self._passage.handle(request)
        async with self._reading():
            return await self._passage.handle(request)
