"""Ports that are reserved for a test before a server listens on them."""

import socket
from contextlib import contextmanager


@contextmanager
def held_port():
    """A port of 127.0.0.1 that refuses connections until a server of the test listens on it.

    A bound socket with SO_REUSEADDR reserves it: the kernel does not hand it out as a free port, but servers
    that request it with SO_REUSEADDR get it (socket(7)).
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
