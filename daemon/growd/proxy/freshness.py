"""Who reads the points through the front door finds them in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.proxy.gateway import first_segment
from growd.server.client_request import split_target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from aiohttp import web

    from growd.server.server import Passage


class Freshness:
    """Hands requests on to `passage`, those for `databases` within `reading()`.

    Points wait before they are shipped, so that the card is spared; a reader, or a feed for as long as it
    lasts, is to see them all the same. A feed that begins now gets them as changes: were they shipped before
    it begins, they would be in neither its answer nor the one that its client has from a view.
    """

    def __init__(
        self,
        passage: Passage,
        databases: Collection[str],
        reading: Callable[[bool], AbstractAsyncContextManager[None]],
    ) -> None:
        self._passage = passage
        self._databases = databases
        self._reading = reading

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        if first_segment(request) not in self._databases:
            return await self._passage.handle(request)
        async with self._reading(_begins_now(request.raw_path)):
            return await self._passage.handle(request)


def _begins_now(target: str) -> bool:
    """Whether it is a feed of the changes from now on."""
    path, query = split_target(target)
    return path.endswith("/_changes") and "since=now" in query.split("&")
