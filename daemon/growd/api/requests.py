"""Reads names and JSON bodies of requests, with an error for each way they can be invalid."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from growd.bus.errors import shown
from growd.server.client_request import client_of, send_continue
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import StreamReader

    from growd.api.operation import Limits

MAX_DEPTH: Final = 64
MAX_CONTAINERS: Final = 10_000
MAX_HELD: Final = 4 * 1024 * 1024  # bytes
SMALL: Final = 16 * 1024  # bytes
JSON_TYPE: Final = "application/json"
FORM: Final = "multipart/form-data"
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')  # in a text that is well-formed
_AS_ARRAYS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_decode: Final = msgspec.json.Decoder().decode


def is_form(request: web.BaseRequest) -> bool:
    """Whether a request has a form with photos, not JSON."""
    return request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower() == FORM


def decode_name(raw: str) -> str:
    """A name from the path, percent-decoded, `%2F` included."""
    if "%" not in raw and raw.isascii():
        return raw
    try:
        # bytes that are not UTF-8 stand in the target as surrogates
        return unquote_to_bytes(raw.encode(errors="surrogateescape")).decode()
    except UnicodeError:
        raise ApiError(400, "invalid_name", f"the name {shown(raw)} is not UTF-8 when decoded") from None


class BodyReader:
    """Reads the JSON bodies of requests, each of at most `limits.body_bytes` bytes.

    A client may take `body_stall_s` seconds for the next byte and `body_whole_s` for all of them. All bodies
    that are not small may have `MAX_HELD` bytes together, until their requests are answered. One client may
    have a quarter of that, or one body.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._turn = asyncio.Lock()
        self.held = 0  # bytes
        self._shares: dict[str, int] = {}  # of it, by client

    @asynccontextmanager
    async def reading(self, request: web.BaseRequest) -> AsyncIterator[Any]:
        """The request's JSON body, None if it has none. Its bytes count during the body.

        `ApiError`: 415 if it is not declared JSON, 413 if it is too large, 408 if it is too slow, 503 if the
        bodies of all clients are too large together, 400 if it is not valid UTF-8 JSON (RFC 8259, so no
        NaN), nests deeper than 64 arrays and objects or has more than 10 000 of them. Errors in the headers
        are reported before a client with `Expect: 100-continue` sends the body.
        """
        if not request.body_exists:
            yield None
            return
        length = request.content_length
        if length is not None:
            _check_type(request)
            self._check_size(length)
        send_continue(request)
        client = client_of(request)
        body = await self._whole(request, client)
        try:
            if _weight(len(body)):
                async with self._turn:  # each takes milliseconds; other requests run between two of them
                    await asyncio.sleep(0)
            if length is None and body:
                _check_type(request)
            yield decoded(body) if body else None
        finally:
            self._let_go(client, _weight(len(body)))

    async def _whole(self, request: web.BaseRequest, client: str | None) -> bytes | bytearray:
        """The whole body, counted."""
        try:
            if request.content.is_eof():  # most bodies are small and come with their head
                body = request.content.read_nowait()
                self._check_size(len(body))
                self._count(client, _weight(len(body)))
                return body
            async with asyncio.timeout(self.limits.body_whole_s):
                return await self._collected(request.content, client)
        except TimeoutError:
            sentence = f"the body did not arrive within {self.limits.body_whole_s:g} s"
            raise ApiError(408, "body_timeout", sentence, closes=True) from None
        except (web.RequestPayloadError, HttpProcessingError, ConnectionError):
            raise _incomplete() from None

    async def _collected(self, content: StreamReader, client: str | None) -> bytearray:
        body = bytearray()
        try:
            while piece := await self._next(content):
                size = len(body) + len(piece)
                self._check_size(size)
                self._count(client, _weight(size) - _weight(len(body)))
                body += piece
        except BaseException:
            self._let_go(client, _weight(len(body)))
            raise
        return body

    async def _next(self, content: StreamReader) -> bytes:
        try:
            async with asyncio.timeout(self.limits.body_stall_s):
                return await content.readany()
        except TimeoutError:
            sentence = f"no byte of the body arrived for {self.limits.body_stall_s:g} s"
            raise ApiError(408, "body_timeout", sentence, closes=True) from None
        except RuntimeError:  # aiohttp's, for a connection that was lost
            raise _incomplete() from None

    def _check_size(self, size: int) -> None:
        if size > self.limits.body_bytes:
            sentence = f"the body is larger than {self.limits.body_bytes} bytes"
            raise ApiError(413, "too_large", sentence, closes=True)

    def _count(self, client: str | None, more: int) -> None:
        if not more:
            return
        if self.held + more > MAX_HELD:
            sentence = f"the bodies of all clients are larger than {MAX_HELD} bytes together; try again"
            raise ApiError(503, "busy", sentence, {"Retry-After": "2"}, closes=True)
        if client is not None:
            share = self._shares.get(client, 0) + more
            most = max(MAX_HELD // 4, self.limits.body_bytes)
            if share > most:
                sentence = f"the bodies of {client} are larger than {most} bytes together; try again"
                raise ApiError(429, "too_many_bodies", sentence, {"Retry-After": "2"}, closes=True)
            self._shares[client] = share
        self.held += more

    def _let_go(self, client: str | None, size: int) -> None:
        self.held -= size
        if client is not None and size:
            self._shares[client] -= size
            if not self._shares[client]:
                del self._shares[client]


def _weight(size: int) -> int:
    """The bytes that a body of this size counts for."""
    return size if size > SMALL else 0


def decoded(body: bytes | bytearray, what: str = "body") -> Any:
    """The value of a JSON text; see `BodyReader.reading` for what is refused. `what` is its name."""
    try:
        value = _decode(body)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError as error:
        raise ApiError(400, "invalid_utf8", f"the {what} is not UTF-8: {error.reason}") from None
    except ValueError as error:  # msgspec's errors are ValueErrors too
        reason = str(error).removeprefix("JSON is malformed: ")
        raise ApiError(400, "malformed_json", f"the {what} is not well-formed JSON: {reason}") from None
    _check_shape(body)
    return value


def _check_shape(body: bytes | bytearray) -> None:
    """Limit arrays and objects, which cost far more than their bytes, and their depth."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    brackets = _STRING.sub(b"", body).translate(_AS_ARRAYS, _NO_BRACKETS)
    if len(brackets) > 2 * MAX_CONTAINERS:
        sentence = f"the JSON has more than {MAX_CONTAINERS} arrays and objects"
        raise ApiError(400, "too_complex", sentence)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")  # the innermost level
    if brackets:
        raise _too_deep()


def _check_type(request: web.BaseRequest) -> None:
    declared = request.headers.get("Content-Type", "")
    if declared != JSON_TYPE:
        _check_declared(declared)
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding != "identity":
        sentence = f"the body can't have the content encoding {shown(coding)}"
        raise ApiError(415, "unsupported_encoding", sentence)


def _check_declared(declared: str) -> None:
    media, *parameters = (part.strip().lower() for part in declared.split(";"))
    if media != JSON_TYPE:
        found = f"not {shown(declared)}" if declared else "and has no Content-Type"
        raise ApiError(415, "unsupported_media_type", f"the body must be declared {JSON_TYPE}, {found}")
    for parameter in parameters:
        if parameter.startswith("charset=") and parameter[8:].strip('"') not in {"utf-8", "utf8"}:
            raise ApiError(415, "unsupported_media_type", f"JSON is UTF-8, not {shown(parameter[8:])}")


def _incomplete() -> ApiError:
    return ApiError(400, "incomplete_body", "the body is incomplete or malformed", closes=True)


def _too_deep() -> ApiError:
    return ApiError(400, "too_deep", f"the JSON nests deeper than {MAX_DEPTH} levels")
