"""A connection before its keys are agreed on: it counts like any other, and has its time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast

from growd.server.connections import LINGER_S

if TYPE_CHECKING:
    from growd.server.connections import HttpServer
    from growd.server.tls import Certificate

WRITE_BUFFER: Final = 64 * 1024  # bytes, as asyncio has for plain connections
ENCRYPTED: Final = 16 * 1024  # bytes besides, that wait for the kernel
_log = logging.getLogger(__name__)


class Handshake(asyncio.Protocol):
    """Takes a connection over, and hands it to `server` once it speaks TLS.

    asyncio can do that by itself, but tells of a connection only then: any number could be underway before.
    """

    def __init__(self, server: HttpServer, certificate: Certificate) -> None:
        self._server = server
        self._certificate = certificate
        self._transport: asyncio.Transport | None = None
        self._early = b""  # what came with the last of the handshake
        self._is_over = False
        self.client: str | None = None  # whom it counts for

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._server.is_leaving:
            self.abort()
            return
        self._transport.pause_reading()  # what comes is for TLS
        self._transport.set_write_buffer_limits(high=ENCRYPTED)
        admission = self._server.admission
        self.client = admission.clients.connected(transport)
        refusal = admission.admit(self)
        if refusal is None:
            agreeing = asyncio.create_task(self._agree(self._transport), name="TLS handshake")
            agreeing.add_done_callback(self._is_done)
            self._server.own(agreeing)
        else:
            _log.debug("a connection was refused before its handshake: %s", refusal.sentence)
            self._transport.abort()  # there is no way to say why

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, _: Exception | None) -> None:
        self._is_over = True
        self._server.admission.forget(self)

    def force_close(self) -> None:
        self.abort()

    def give_up_head(self) -> None:
        """It has none."""

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _is_done(self, agreeing: asyncio.Task[None]) -> None:
        if agreeing.cancelled():
            self.abort()  # it may not even have begun, so that nobody else closes the connection

    async def _agree(self, transport: asyncio.Transport) -> None:
        try:
            if transport.is_closing():
                return
            over_tls = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._certificate.context,
                server_side=True,
                ssl_handshake_timeout=self._certificate.handshake_timeout_s,
                ssl_shutdown_timeout=LINGER_S,
            )
        except OSError as error:  # ssl's own and those of a connection that was lost or took too long
            _log.debug("%s speaks no TLS: %s", transport.get_extra_info("peername"), error)
            return
        finally:
            self._server.admission.forget(self)
        if over_tls is None or over_tls.is_closing() or self._is_over:
            return
        # asyncio would hold half a megabyte for a client that reads nothing
        over_tls.set_write_buffer_limits(high=WRITE_BUFFER)
        await self._hand_over(over_tls)

    async def _hand_over(self, over_tls: asyncio.Transport) -> None:
        connection = self._server()
        over_tls.pause_reading()
        over_tls.set_protocol(connection)
        connection.connection_made(over_tls)
        await asyncio.sleep(0)  # a connection waits for requests from the next turn on
        if over_tls.is_closing():
            return
        over_tls.resume_reading()
        if self._early:
            connection.data_received(self._early)
