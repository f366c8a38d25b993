"""The event loop of the daemon, its limit of open files, and its memory."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

SWITCH_S: Final = 0.0005
"""Seconds that a thread may keep another waiting. With Python's 5 ms a commit holds up many requests."""


def allow_open_files() -> None:
    """Raise the soft limit to the hard limit: the usual 1 024 is less than clients may need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def return_free_memory() -> None:
    """Give memory that is free in the process back to the kernel: after a start a megabyte, in 0.5 ms."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # malloc_trim(3), of glibc
    if trim is not None:
        trim(0)


async def load(*modules: str) -> None:
    """Import modules in a thread, so that the function that needs them can import them at once.

    What only some configurations or calls need is loaded like this: an import of ten modules takes 10 ms on
    a fast machine, and a Raspberry Pi Zero ten times as long.
    """
    for module in modules:
        if module not in sys.modules:
            await asyncio.to_thread(import_module, module)


def run_on_loop(
    main: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """Run `main` to its end.

    Objects that exist by now are excluded from garbage collection: a full collection with them blocks the
    loop for 45 ms on a fast machine.
    """
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main)
