"""What the processes share that a benchmark starts and measures."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def ended() -> None:
    """Return when standard input is closed: the benchmark that started this process has ended."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def on_beat(send: Callable[[], object], rate_hz: float, beats: int | None = None) -> None:
    """Call `send` at a steady rate, `beats` times or until cancelled. A late beat does not delay the next."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for beat in itertools.count() if beats is None else range(beats):
        await asyncio.sleep(began + beat / rate_hz - loop.time())
        send()
