"""Databases of a test's own, deleted at its end."""

from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import aiohttp

from growd.store.bootstrap import Databases
from growd.store.couch import Couch
from growd.store.errors import CouchError


@asynccontextmanager
async def own_databases(server, owner=None):
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
