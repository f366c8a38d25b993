"""Waiting for what is told by no event."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(condition: Callable[[], object]) -> None:
    """Let others go on until it is so. `TimeoutError` after 10 s."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  it is told by no event
            await asyncio.sleep(0)
