"""Ports that are a test's own while nobody listens on them."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def held_port() -> Iterator[int]:
    """A port of 127.0.0.1 on which connections are refused until a server of the test takes it.

    A port that is only looked up and let go may be another test's server a moment later, which then gets the
    connections of this one. A socket that is bound with SO_REUSEADDR and does not listen keeps it: the kernel
    gives it to nobody who asks for any port, and to servers that ask for it with SO_REUSEADDR (socket(7)).
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
