"""Runs parts as the supervisor does: each in a named task that is cancelled at the end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.clock import ManualClock


class Runnable(Protocol):
    async def run(self) -> None: ...


@asynccontextmanager
async def in_tasks(*parts: Runnable) -> AsyncIterator[None]:
    """Run the parts around the body. Raises the error of a part at the end."""
    tasks = [asyncio.create_task(part.run(), name=f"running {type(part).__name__}") for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if not isinstance(result, asyncio.CancelledError) and isinstance(result, BaseException):
            raise result


@asynccontextmanager
async def running(clock: ManualClock, *parts: Runnable) -> AsyncIterator[None]:
    """Run the parts with a clock that the test moves; they are idle when the body starts."""
    async with in_tasks(*parts):
        await clock.settle()
        yield
