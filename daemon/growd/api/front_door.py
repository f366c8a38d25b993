"""The one address that clients use: `/_svc` is the API's, everything else goes to the database."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiohttp import StreamReader, hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from growd.access.origins import OriginGuard
from growd.config import Http
from growd.server.client_request import READING, add_own_headers, check_framing, prefers_html, split_target
from growd.server.connections import ConnectionLimits
from growd.server.errors import ApiError
from growd.server.json_answer import JsonAnswer
from growd.server.listener import Listener

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from growd.api.api import Api
    from growd.server.client_request import ClientRequest, RequestHandler
    from growd.server.tls import Certificate

BODILESS: Final = READING  # methods of which no operation of the API takes a body


class FrontDoor:
    """Listens, refuses foreign pages and clients beyond their limits, and routes all other requests."""

    def __init__(
        self,
        api: Api,
        database: RequestHandler,
        limits: ConnectionLimits | None = None,
        guard: OriginGuard | None = None,
    ) -> None:
        self.guard = guard or OriginGuard(Http())
        self.listener = Listener(self._answer, limits or ConnectionLimits(), api.clients)
        self.address: tuple[str, int] | None = None
        self.scheme = "http"
        self.answered: Counter[int] = Counter()
        """How many requests were answered, by the first digit of the status, without open streams."""
        self._api = api
        self._database = database

    @property
    def connections(self) -> int:
        """How many are open."""
        return self.listener.connections

    @property
    def url(self) -> str:
        """Where it listens: "http://127.0.0.1:5984"."""
        host, port = self.address or ("", 0)
        return f"{self.scheme}://[{host}]:{port}" if ":" in host else f"{self.scheme}://{host}:{port}"

    async def open(
        self,
        host: str,
        port: int,
        passed: Sequence[socket.socket] = (),
        certificate: Certificate | None = None,
    ) -> None:
        """Listen on `host` and `port` (0: any free one; see `address`). Raises `AddressError`.

        `passed` are sockets of that address which a service manager has opened. It keeps them while growd
        restarts, so that clients wait meanwhile. With a `certificate` only TLS is spoken.
        """
        self.address = await self.listener.open(host, port, passed, certificate)
        self.scheme = "http" if certificate is None else "https"

    async def close(self) -> None:
        """Refuse new connections, end streams and open requests."""
        self._api.end_streams()
        await self.listener.close()
        await self._api.close()

    async def _answer(self, request: ClientRequest) -> web.StreamResponse:
        response = await self._route(request)
        if not (response.prepared or isinstance(response, JsonAnswer)):  # these have them
            add_own_headers(request, response.headers)
        self.answered[response.status // 100] += 1
        return response

    async def _route(self, request: ClientRequest) -> web.StreamResponse:
        path, query = split_target(request.raw_path)
        path = self._api.plain_path(path)
        is_api = path == self._api.root or path.startswith(self._api.root + "/")
        # a limit of requests must not leave a page half loaded
        counts = is_api and not self._api.is_page(path)
        answer = self._check(request, is_api=is_api, counts=counts)
        if answer is not None:
            return answer
        if not is_api:
            if path == "/" and request.method in READING and prefers_html(request):
                headers = {hdrs.LOCATION: f"{self._api.root[1:]}/", hdrs.VARY: hdrs.ACCEPT}
                return web.Response(status=302, headers=headers)
            return await self._database.handle(request)
        if request.method in BODILESS and not request.content.is_eof():
            return await self._answer_without_body(request, path, query)
        return await self._api.handle(request, path, query)

    def _check(self, request: ClientRequest, *, is_api: bool, counts: bool) -> web.Response | None:
        """The answer to a preflight or a refused request, None for others."""
        clients = self._api.clients
        clients.recognise(request)
        try:
            check_framing(request)
            if counts:
                clients.count(request.client)
            return self.guard.admit(request, is_api=is_api)
        except ApiError as error:
            return error.response_to(request)

    async def _answer_without_body(self, request: ClientRequest, path: str, query: str) -> web.StreamResponse:
        """Have the API answer, and drop the body, which no operation of this method takes."""
        dropping = asyncio.create_task(_drop(request.content), name=f"drop body {path}")
        try:
            return await self._api.handle(request, path, query)
        finally:
            dropping.cancel()
            await asyncio.wait([dropping])


async def _drop(body: StreamReader) -> None:
    """Read an unwanted body, so that it is not held while its request is answered, as on a stream."""
    # aiohttp's errors for a malformed or unfinished body
    with suppress(web.RequestPayloadError, HttpProcessingError, ConnectionError, RuntimeError):
        while await body.readany():
            pass
