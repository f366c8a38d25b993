"""The event loop that the daemon runs on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def run_on_loop(main: Coroutine[None, None, T]) -> T:
    return asyncio.run(main)
