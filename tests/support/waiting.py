"""Waiting for conditions that no event announces."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S: Final = 50.0  # for a machine that is busy with other tests


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until `condition` holds; `TimeoutError` after `PATIENCE_S`."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  no event announces it
            await asyncio.sleep(0)


def wait_until(condition: Callable[[], object]) -> None:
    """Let other threads and processes run until `condition` holds; `TimeoutError` after `PATIENCE_S`."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition did not hold in time")
        time.sleep(0.001)
