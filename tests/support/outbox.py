"""An outbox with its own local file."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from growd.store.local import LocalStore
from growd.store.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from growd.runtime.clock import Clock
    from growd.store.points import DataPoint


@asynccontextmanager
async def opened(local: LocalStore, clock: Clock, **options: Any) -> AsyncIterator[Outbox]:
    outbox = await Outbox.open(local, clock, **options)
    try:
        yield outbox
    finally:
        await outbox.close()


@asynccontextmanager
async def opened_at(path: Path, clock: Clock, **options: Any) -> AsyncIterator[Outbox]:
    local = await LocalStore.open(path)
    try:
        async with opened(local, clock, **options) as outbox:
            yield outbox
    finally:
        await local.close()


async def add_durably(outbox: Outbox, points: Iterable[DataPoint]) -> None:
    for point in points:
        outbox.add(point)
    await outbox.flush()
