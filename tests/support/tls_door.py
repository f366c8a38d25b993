"""A proxy that adds TLS to a server. Its certificate is in the folder `tls`."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from support.stand_in import READ_LIMIT, StandIn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

TLS = Path(__file__).parent / "tls"
CA_FILE = TLS / "ca.pem"


def server_context() -> ssl.SSLContext:
    """The TLS context of a server with the certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    return context


def client_context() -> ssl.SSLContext:
    """The TLS context of a client that trusts the certificate."""
    return ssl.create_default_context(cafile=CA_FILE)


@asynccontextmanager
async def tls_door_to(port: int) -> AsyncIterator[int]:
    """The port of a TLS proxy to `port` of this machine."""
    async with door_to(port, server_context()) as door:
        yield door


@asynccontextmanager
async def door_to(
    port: int, context: ssl.SSLContext | None = None, change: Callable[[bytes], bytes] = bytes
) -> AsyncIterator[int]:
    """The port of a proxy to `port`, with TLS if `context` is given; `change` maps parts of answers."""

    async def enter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            inside, answer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pass(reader, answer, bytes), _pass(inside, writer, change))

    async with StandIn(enter, context) as door:
        yield door.port


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]
) -> None:
    try:
        while part := await reader.read(READ_LIMIT):
            writer.write(change(part))
            await writer.drain()
    finally:
        writer.close()
