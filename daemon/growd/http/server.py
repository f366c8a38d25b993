"""The one address that clients use: `/_svc` to the API, everything else to the database."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp import web

from growd.http.requests import split_target

if TYPE_CHECKING:
    from growd.http.api import Api

MAX_LINE: Final = 65_536  # CouchDB takes long keys in its query; the default of 8 KiB would refuse them
CLOSE_S: Final = 0.3  # how long open requests may go on when the daemon leaves


class Passage(Protocol):
    """What answers everything that is not the API's: the way through to the database."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse: ...


class AddressError(OSError):
    """The address can't be listened on; the sentence says why."""


class Server:
    """Listens, and sends each request to the API or through to the database."""

    def __init__(self, api: Api, passage: Passage) -> None:
        self._api = api
        self._passage = passage
        self._runner: web.ServerRunner | None = None
        self.address: tuple[str, int] | None = None

    async def open(self, host: str, port: int) -> None:
        """Listen on `host`, `port` (0: any free one; `address` tells which). Raises `AddressError`."""
        server = web.Server(
            self._handle,
            access_log=None,
            auto_decompress=False,  # what the database is sent stays as the client coded it
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
        )
        self._runner = web.ServerRunner(server, handler_cancellation=True, shutdown_timeout=CLOSE_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=512)
        try:
            await site.start()
        except OSError as error:
            await self.close()
            raise AddressError(error.errno, _why(error, host, port)) from None
        self.address = self._runner.addresses[0][:2]

    async def close(self) -> None:
        """Refuse new connections, and end those that are open."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, query = split_target(request.raw_path)
        root = self._api.root
        if path != root and not path.startswith(root + "/"):
            return await self._passage.handle(request)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await _continue(request)
        return await self._api.handle(request, path, query)


async def _continue(request: web.BaseRequest) -> None:
    """Let a client that asked first send its body (RFC 9110, section 10.1.1)."""
    if request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(0)


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program; choose another with --port"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"port {port} on {host} may not be used by this user; choose one above 1023 with --port"
    return f"can't listen on {host} port {port}: {error.strerror or error}"
