"""The event loop that the daemon runs on, and how many connections it may have."""

from __future__ import annotations

import asyncio
import gc
import resource
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def allow_open_files() -> None:
    """As many as the system lets this process have; 1 024, the usual limit, is less than clients may need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_on_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end.

    The modules that were read by now stay as long as the program: the garbage collector need not look through
    them at each full collection, which holds the loop up for 45 ms on a fast machine.
    """
    gc.freeze()
    return asyncio.run(main)
