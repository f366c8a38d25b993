"""Waiting for conditions that no event announces."""

import asyncio
import time
from contextlib import suppress

PATIENCE_S = 50.0  # for a machine that is busy with other tests


_IDLE_S = 50e-6
"""A turn of an event loop on which nothing happens is shorter."""
_IDLE_TURNS = 100


async def until(condition):
    """Let other tasks run until `condition` holds; `TimeoutError` after `PATIENCE_S`."""
    idle = 0
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            began = time.perf_counter()
            await asyncio.sleep(0)
            idle = idle + 1 if time.perf_counter() - began < _IDLE_S else 0
            if idle > _IDLE_TURNS:  # another process, thread or a moment of real time is waited for
                time.sleep(0.001)  # noqa: ASYNC251  the loop may have simulated time


async def until_found(look, *not_yet):
    """What `look` finds in another process, as soon as it is true; `TimeoutError` after `PATIENCE_S`.

    Errors in `not_yet` count as nothing found.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(*not_yet):
                if found := await look():
                    return found
            await asyncio.sleep(0.05)


def wait_until(condition):
    """Let other threads and processes run until `condition` holds; `TimeoutError` after `PATIENCE_S`."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition did not hold in time")
        time.sleep(0.001)
