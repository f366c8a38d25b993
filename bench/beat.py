"""Something that is done again and again on a steady beat, by a process that a benchmark measures."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def on_beat(send: Callable[[], object], rate_hz: float, beats: int | None = None) -> None:
    """Call `send` so many times a second, `beats` times or for ever.

    A beat that comes late does not make the following ones late.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    for beat in itertools.count() if beats is None else range(beats):
        await asyncio.sleep(began + beat / rate_hz - loop.time())
        send()
