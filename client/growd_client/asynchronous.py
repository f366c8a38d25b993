"""The asyncio client."""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import aiohttp
from yarl import URL

from growd_client.address import given_address, given_login, given_trust
from growd_client.connection import PIECE_BYTES, TIMEOUT_S
from growd_client.errors import GrowdError, UsageError
from growd_client.following import EVENT_STREAM, EventLines, Following, Lines, Pauses
from growd_client.methods import Awaited, ClientMethods
from growd_client.points import PointPages, refuses_a_name
from growd_client.server import ANSWER_BYTES, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from growd_client.answers import StoredPoint, TopicMessage
    from growd_client.following import StreamEvent
    from growd_client.form import PhotoForm
    from growd_client.methods import Time
    from growd_client.request import ClientCall

T = TypeVar("T")
_FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError)
_BREAKS: Final = (*_FAILURES, RuntimeError)  # aiohttp's for a connection that ended before it is read


class AsyncGrowd(ClientMethods, Awaited):
    """A client of one growd for asyncio. Close it with `await close()`, or use it in `async with`.

    Its methods are those of `Growd`, as coroutines, and raise the same errors. They may run at the same time.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
        timeout_s: float = TIMEOUT_S,
        pauses: Pauses | None = None,
    ) -> None:
        """As those of `Growd`. Reads the file `ca`."""
        address = given_address(url)
        self._server = Server(address, given_login(address, user, password), timeout_s)
        self._tls = given_trust(address, ca)
        self._pauses = pauses or Pauses()
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, also those of streams, which then raise `UsageError`, as later calls do."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def follow(
        self,
        *topics: str,
        throttle_s: float = 0.0,
        latest: bool = True,
        heartbeat_s: float = 10.0,
        on_event: Callable[[StreamEvent], None] | None = None,
    ) -> AsyncIterator[TopicMessage]:
        """The messages of topics, as `Growd.follow`."""
        stream = Following(topics, throttle_s, heartbeat_s, self._pauses, on_event, latest=latest)
        limit_s = self._server.timeout_s
        limit = aiohttp.ClientTimeout(sock_connect=limit_s, sock_read=heartbeat_s + limit_s)
        while True:
            try:
                async with self._begin("GET", stream.target, limit, EVENT_STREAM, stream.headers) as answer:
                    if answer.status != HTTPStatus.OK:
                        raise self._server.refusal(answer.status, await self._body(answer), answer.headers)
                    stream.opened()
                    event, lines = EventLines(), Lines()
                    async for data in answer.content.iter_any():
                        for line in lines.cut(data):
                            if (message := stream.message(event, line)) is not None:
                                yield message
                pause_s = stream.ended()
            except GrowdError as error:
                pause_s = stream.failed(error)
            except aiohttp.ClientPayloadError:
                pause_s = stream.ended()
            except _BREAKS as error:
                pause_s = stream.failed(self._explained(error, limit_s))
            await asyncio.sleep(pause_s)

    async def points(
        self,
        environment: str,
        variable: str,
        *,
        category: str = "measured",
        start: Time | None = None,
        end: Time | None = None,
        prefix: str = "",
    ) -> AsyncIterator[StoredPoint]:
        """The stored points of a variable, as `Growd.points`."""
        pages = PointPages((environment, category, variable), start, end, prefix)
        while not pages.done:
            for point in await self._send(pages.call()):
                yield point
        if pages.has_none:
            try:
                await self._send(pages.names())
            except GrowdError as error:
                if refuses_a_name(error):
                    raise

    async def _send(self, call: ClientCall[T]) -> T:
        server = self._server
        limit_s = server.timeout_s + call.wait_s
        limit = aiohttp.ClientTimeout(total=limit_s)
        if call.form is not None:
            await asyncio.to_thread(call.form.measure)
        try:
            async with self._begin(call.method, server.place(call), limit, sent=call) as answer:
                status, headers, body = answer.status, answer.headers, await self._body(answer)
        except _FAILURES as error:
            raise self._explained(error, limit_s) from None
        return server.answer(call, status, body, headers)

    def _begin(
        self,
        method: str,
        path: str,
        limit: aiohttp.ClientTimeout,
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        *,
        sent: ClientCall[Any] | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        server = self._server
        own = {"Accept": accept, "User-Agent": "growd", **(headers or {}), **(sent.headers() if sent else {})}
        if server.login is not None:
            own["Authorization"] = server.login.header
        if self._is_closed:
            raise UsageError("the client is closed")
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls or True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        body: bytes | AsyncIterator[bytes] | None = sent.body if sent else None
        if sent is not None and sent.form is not None:
            body = _pieces(sent.form)
        url = URL(server.address.origin + server.target(path), encoded=True)
        return self._session.request(
            method, url, data=body, headers=own, timeout=limit, allow_redirects=False
        )

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        """The whole answer, within a limit of size: another program may stream for ever."""
        body = bytearray()
        async for piece in answer.content.iter_chunked(PIECE_BYTES):
            body += piece
            if len(body) > ANSWER_BYTES:
                raise self._server.too_long()
        return bytes(body)

    def _explained(self, error: Exception, limit_s: float) -> GrowdError:
        """The reason as a sentence, without the login."""
        server = self._server
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            cause = error.certificate_error
            why = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
            return server.untrusted(why)
        if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
            return server.handshake_failed()
        if isinstance(error, TimeoutError):
            return server.late(limit_s)
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return server.unresolved(error.strerror)
        if isinstance(error, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
            return server.other_program("not HTTP")
        return server.silent()


async def _pieces(form: PhotoForm) -> AsyncIterator[bytes]:
    """The form, with its files read in threads."""
    pieces = iter(form)
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece
