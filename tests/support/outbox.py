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
