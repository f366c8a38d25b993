"""Answers of the API that are one whole JSON document."""

from __future__ import annotations

import asyncio
import gzip
import time
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import hdrs, web
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11

from growd.runtime.sentence import encode
from growd.server.client_request import NO_STORE, weights

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import StreamWriter

    from growd.server.client_request import ClientRequest

PIECE: Final = 64 * 1024
"""Bytes of a document that are written at once."""
COMPRESSED_FROM: Final = 2 * 1024
"""Smaller documents fit into one or two packets as they are."""
_STATUS_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n" for each in HTTPStatus}


class JsonAnswer(web.StreamResponse):
    """A JSON document, sent with its head in one write.

    `web.Response` collects the headers in a multidict and serialises it, which takes a third of the time of a
    small request. Most headers here are the same for all answers.
    """

    def __init__(self, body: bytes, status: int = 200) -> None:
        super().__init__(status=status)
        self.document = body
        self._request: ClientRequest | None = None
        self._closes = False
        self._is_sent = False

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection stays open for another request; None before the answer is prepared."""
        return None if self._request is None else self._request.keep_alive and not self._closes

    @property
    def prepared(self) -> bool:
        """Whether headers can no longer be added."""
        return self._request is not None

    def force_close(self) -> None:
        """Close the connection after this answer."""
        self._closes = True

    async def send(self, request: web.BaseRequest) -> None:
        """Send everything now, and return when most of it has left this process, or the client has gone."""
        await self.prepare(request)
        with suppress(ConnectionError):
            await self.write_eof()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Accept the request that this answers; `write_eof` sends head and body."""
        self._request = cast("ClientRequest", request)
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:  # noqa: ARG002  the whole body is known
        """Send everything, and wait until the client accepts it."""
        if self._is_sent:
            return
        self._is_sent = True
        request = cast("ClientRequest", self._request)
        writer = cast("StreamWriter", request.writer)
        document = await self._encoded(request)
        head = self._head(request, len(document)).encode("latin-1")
        body = memoryview(b"" if request.method == "HEAD" else document)
        await writer.write(b"".join((head, body[:PIECE])), drain=False)
        for start in range(PIECE, len(body), PIECE):  # so that the transport holds no copy of all
            if request.protocol.writing_paused:
                await writer.drain()
            await writer.write(body[start : start + PIECE], drain=False)
        if request.protocol.writing_paused:
            await writer.drain()

    async def _encoded(self, request: ClientRequest) -> bytes:
        """The document, compressed if it is large and the client accepts that."""
        if len(self.document) < COMPRESSED_FROM:
            return self.document
        self.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
        if not weights(request.headers.get(hdrs.ACCEPT_ENCODING, "")).get("gzip"):
            return self.document
        self.headers[hdrs.CONTENT_ENCODING] = "gzip"
        if len(self.document) > PIECE:
            return await asyncio.to_thread(_compressed, self.document)
        return _compressed(self.document)

    def _head(self, request: ClientRequest, length: int) -> str:
        own = f"{_STATUS_LINES[self.status]}Content-Length: {length}\r\n"
        own += f"{request.answer_headers.lines}{_common_lines(int(time.time()))}"
        for name, value in self.headers.items():
            own += _line(name, value)
        if not self.keep_alive:
            own += "Connection: close\r\n"
        elif request.version < HttpVersion11:
            own += "Connection: keep-alive\r\n"
        return own + "\r\n"


def _compressed(document: bytes) -> bytes:
    return gzip.compress(document, 1, mtime=0)


def json_answer(value: Any, status: int = 200) -> JsonAnswer:
    """`value` encoded as JSON."""
    return JsonAnswer(encode(value), status)


def names_answer(names: Iterable[str]) -> JsonAnswer:
    """A list of names."""
    return JsonAnswer(_encoded_names(tuple(names)))


@lru_cache(4)
def _encoded_names(names: tuple[str, ...]) -> bytes:
    """As JSON. The lists of topics, services, parameters and nodes rarely change."""
    return encode({"results": names})


@lru_cache(1)
def _common_lines(second: int) -> str:
    """The headers shared by all answers of one second."""
    date = formatdate(second, usegmt=True)
    return (
        f"Content-Type: application/json\r\nCache-Control: {NO_STORE}\r\n"
        f"Date: {date}\r\nServer: {SERVER_SOFTWARE}\r\n"
    )


def _line(name: str, value: str) -> str:
    if not value.isprintable():
        raise ValueError(f"invalid header value {value!r}")
    return f"{name}: {value}\r\n"
