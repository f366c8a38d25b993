"""A client that asks, and does not read the answer."""

import asyncio
import socket
from contextlib import asynccontextmanager

from support.raw_http import RawClient


@asynccontextmanager
async def unread(port, target, accept):
    """A client that has read the head of an answer, with little room for what it does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    client = RawClient(*await asyncio.open_connection(sock=connection, limit=4_096))
    await client.send(f"GET {target} HTTP/1.0\r\nAccept: {accept}\r\n\r\n".encode())
    await client.head()
    try:
        yield client
    finally:
        await client.close()
