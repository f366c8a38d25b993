"""Context managers that block, entered and left in a thread."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractContextManager

T = TypeVar("T")


@asynccontextmanager
async def in_thread(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave `manager` in a thread; it does not suppress errors."""
    value = await asyncio.to_thread(manager.__enter__)
    try:
        yield value
    except BaseException:
        await asyncio.to_thread(manager.__exit__, *sys.exc_info())
        raise
    await asyncio.to_thread(manager.__exit__, None, None, None)
