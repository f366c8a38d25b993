"""An outbox with its own local file."""

from contextlib import asynccontextmanager

from growd.store.local import LocalStore
from growd.store.outbox import Outbox


@asynccontextmanager
async def opened(local, clock, **options):
    outbox = await Outbox.open(local, clock, **options)
    try:
        yield outbox
    finally:
        await outbox.close()


@asynccontextmanager
async def opened_at(path, clock, **options):
    local = await LocalStore.open(path)
    try:
        async with opened(local, clock, **options) as outbox:
            yield outbox
    finally:
        await local.close()


async def add_durably(outbox, points):
    for point in points:
        outbox.add(point)
    await outbox.flush()


async def set_query_only(local, state):
    """Let every write of growd.sqlite3 fail with a real error of SQLite (ON), or none (OFF)."""
    await local.read(lambda file: file.execute(f"PRAGMA query_only = {state}"))
