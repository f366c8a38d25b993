"""The event loop of the daemon, and its limit of open files."""

from __future__ import annotations

import asyncio
import gc
import resource
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def allow_open_files() -> None:
    """Raise the soft limit to the hard limit: the usual 1 024 is less than clients may need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_on_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end.

    Objects that exist by now are excluded from garbage collection: a full collection with them blocks the
    loop for 45 ms on a fast machine.
    """
    gc.freeze()
    return asyncio.run(main)
