"""When a process that a benchmark started has to end."""

from __future__ import annotations

import asyncio
import sys


async def ended() -> None:
    """Until standard input is closed: whoever started this process has gone."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
