"""Waiting for conditions that no event announces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S: Final = 40.0  # for a machine that is busy with other tests


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until `condition` holds; `TimeoutError` after `PATIENCE_S`."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  no event announces it
            await asyncio.sleep(0)
