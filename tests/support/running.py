"""Runs parts as the supervisor does: each in a named task that is cancelled at the end."""

import asyncio
from contextlib import asynccontextmanager


@asynccontextmanager
async def in_tasks(*parts):
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
async def running(clock, *parts):
    """Run the parts with a clock that the test moves; they are idle when the body starts."""
    async with in_tasks(*parts):
        await clock.settle()
        yield
