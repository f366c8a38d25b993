"""Databases of a test's own, deleted at its end."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import aiohttp

from growd.store.bootstrap import Databases
from growd.store.couch import Couch
from growd.store.errors import CouchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.database import DatabaseServer


@asynccontextmanager
async def own_databases(
    server: DatabaseServer, owner: tuple[str, str] | None = None
) -> AsyncIterator[tuple[Couch, Databases]]:
    """A client, and names that no other test uses; nothing is made yet."""
    names = Databases.prefixed(f"test-{uuid4().hex}-")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        couch = Couch(session, server.url, credentials=owner or server.auth)
        try:
            yield couch, names
        finally:
            for name in names.names_by_folder().values():
                with suppress(CouchError):
                    await couch.delete(name)
