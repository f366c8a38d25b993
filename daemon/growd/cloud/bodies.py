"""Bodies of requests, read within limits of size and time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from growd.server.client_request import send_continue
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

MOST_BODY: Final = 48 * 1024 * 1024
"""Bytes of a body: the photos of a journal entry (32 MiB) in base64."""

MOST_HELD: Final = 192 * 1024 * 1024
"""Bytes of all bodies together."""

STALL_S: Final = 30.0  # without a byte
WHOLE_S: Final = 300.0


class Bodies:
    """Reads bodies into memory. All together have at most `MOST_HELD` bytes while they are held."""

    def __init__(self) -> None:
        self.held = 0

    @asynccontextmanager
    async def body(
        self, request: web.BaseRequest, most: int = MOST_BODY, within_s: float = WHOLE_S
    ) -> AsyncGenerator[bytearray]:
        """The body, held until the block ends. `ApiError` 400, 408, 413, 415 and 503."""
        check_encoding(request)
        _check(request.content_length or 0, most)
        send_continue(request)
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(within_s):
                    async for piece in pieces(request):
                        _check(len(body) + len(piece), most)
                        self._hold(len(piece))
                        body += piece
            except TimeoutError:
                raise too_slow(within_s) from None
            yield body
        finally:
            self.held -= len(body)

    def _hold(self, size: int) -> None:
        if self.held + size > MOST_HELD:
            sentence = f"the bodies of all devices are larger than {MOST_HELD} bytes together; try again"
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE, "busy", sentence, {"Retry-After": "5"}, closes=True
            )
        self.held += size


async def pieces(request: web.BaseRequest) -> AsyncGenerator[bytes]:
    """The pieces of a body. `ApiError` 408 if none comes for `STALL_S`, 400 if the body is incomplete."""
    while True:
        try:
            async with asyncio.timeout(STALL_S):
                piece = await request.content.readany()
        except TimeoutError:
            raise too_slow(STALL_S) from None
        except (web.RequestPayloadError, HttpProcessingError, ConnectionError, RuntimeError):
            raise ApiError(400, "incomplete_body", "the body is incomplete", closes=True) from None
        if not piece:
            return
        yield piece


def _check(size: int, most: int) -> None:
    if size > most:
        raise ApiError(413, "too_large", f"the body is larger than {most} bytes", closes=True)


def check_encoding(request: web.BaseRequest) -> None:
    """`ApiError` 415 for a compressed body."""
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").strip().lower() != "identity":
        raise ApiError(415, "unsupported_encoding", "the body must not be compressed", closes=True)


def too_slow(seconds: float) -> ApiError:
    """The refusal of a body of which nothing, or not all, came in time."""
    return ApiError(408, "body_timeout", f"the body did not arrive within {seconds:g} s", closes=True)
