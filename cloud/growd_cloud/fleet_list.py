"""The list of a fleet as one JSON object, for all who ask at the same time."""

from __future__ import annotations

import asyncio
import zlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs, web

from growd.server.client_request import weights
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from growd.runtime.clock import Clock
    from growd.server.client_request import ClientRequest
    from growd_cloud.devices import Fleet

KEPT_S: Final = 5.0
"""An answer of this age is given again: each open page asks each 15 s."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""Compressed; that is about 100 000 devices."""
_PIECE: Final = 256 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
_LEVEL: Final = 3  # a tenth of the size; 9 takes several times as long and saves little


class FleetList:
    """Reads the devices a page at a time, and keeps their list compressed."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._reading = asyncio.Lock()
        self._packed = b""
        self._read_at = float("-inf")

    async def answer(self, request: ClientRequest) -> web.Response:
        """The list, of at most `KEPT_S` ago. Raises `CouchError`, and `ApiError` if the list is too large."""
        async with self._reading:
            if self._clock.monotonic() - self._read_at > KEPT_S:
                began = self._clock.monotonic()
                self._packed = await self._read()
                self._read_at = began
            packed = self._packed
        headers = {hdrs.CONTENT_TYPE: "application/json", hdrs.VARY: hdrs.ACCEPT_ENCODING}
        if weights(request.headers.get(hdrs.ACCEPT_ENCODING, "")).get("gzip"):
            return web.Response(body=packed, headers=headers | {hdrs.CONTENT_ENCODING: "gzip"})
        return web.Response(body=_unpacked(packed), headers=headers)

    async def _read(self) -> bytes:
        packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
        pieces = [packer.compress(b'{"devices":[')]
        separator = b""
        async for rows in self._fleet.rows():
            if rows:
                pieces.append(await asyncio.to_thread(_packed, packer, separator, rows))
                separator = b","
            if sum(map(len, pieces)) > MOST_BYTES:
                sentence = f"the list of the fleet has more than {MOST_BYTES} bytes, compressed"
                raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, "too_large", sentence)
        pieces.append(packer.compress(b"]}") + packer.flush())
        return b"".join(pieces)


def _packed(packer: Any, separator: bytes, rows: list[Any]) -> bytes:
    """The next part of the list: in a thread, since a page may have megabytes."""
    packed: bytes = packer.compress(separator + msgspec.json.encode(rows)[1:-1])
    return packed


async def _unpacked(packed: bytes) -> AsyncGenerator[bytes]:
    """In pieces, for a client that takes nothing compressed: never whole in memory."""
    unpacker = zlib.decompressobj(wbits=_GZIP)
    while piece := unpacker.decompress(packed, _PIECE):
        packed = unpacker.unconsumed_tail
        yield piece
