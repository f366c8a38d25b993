"""A proxy that adds TLS to a server. Its certificate is in the folder `tls`."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from support.stand_in import READ_LIMIT, StandIn

TLS = Path(__file__).parent / "tls"
CA_FILE = TLS / "ca.pem"


def server_context():
    """The TLS context of a server with the certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    return context


def client_context():
    """The TLS context of a client that trusts the certificate."""
    return ssl.create_default_context(cafile=CA_FILE)


@asynccontextmanager
async def tls_door_to(port):
    """The port of a TLS proxy to `port` of this machine."""
    async with door_to(port, server_context()) as door:
        yield door


@asynccontextmanager
async def door_to(port, context=None, change=bytes):
    """The port of a proxy to `port`, with TLS if `context` is given; `change` maps parts of answers."""

    async def enter(reader, writer):
        with suppress(ConnectionError, ssl.SSLError):
            inside, answer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pass(reader, answer, bytes), _pass(inside, writer, change))

    async with StandIn(enter, context) as door:
        yield door.port


async def _pass(reader, writer, change):
    try:
        while part := await reader.read(READ_LIMIT):
            writer.write(change(part))
            await writer.drain()
    finally:
        writer.close()
