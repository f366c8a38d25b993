"""Memory that `growd run` saves by how it imports the daemon."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ARENA_MAX: Final = -8  # M_ARENA_MAX of malloc.h
_CERTIFICATES: Final = "SSL_CERT_FILE"  # of OpenSSL
_FROZENLIST: Final = "FROZENLIST_NO_EXTENSIONS"


@contextmanager
def saving_memory(*, trusts_all: bool = False) -> Iterator[None]:
    """Import aiohttp in the body, before the first threads: five megabytes less.

    - One arena for all threads: each arena of glibc keeps what it frees.
    - aiohttp reads the certificates of the machine twice, for connections that name none. Only with
      `trusts_all` such connections can verify a server.
    - frozenlist as Python: growd uses none of its lists.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # mallopt(3), of glibc
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
    asked = {_FROZENLIST: "1"} | ({} if trusts_all else {_CERTIFICATES: os.devnull})
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update(asked)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = was
