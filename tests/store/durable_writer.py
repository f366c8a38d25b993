"""Adds points durably, as fast as it can, and prints the id of each once it is acknowledged.

A program of its own, so that a test can kill it: `python durable_writer.py FILE`.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from growd.runtime.clock import RealClock
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.store.points import PointMaker


async def main(path: Path) -> None:
    local = await LocalStore.open(path)
    outbox = await Outbox.open(local, RealClock())
    maker = PointMaker(local.device)
    await asyncio.gather(*(_write(outbox, maker, f"variable_{number}") for number in range(3)))


async def _write(outbox: Outbox, maker: PointMaker, variable: str) -> None:
    for number in itertools.count():
        point = maker.make("environment_1", variable, number, float(number), is_desired=False)
        outbox.add(point)
        await outbox.flush()
        print(variable, number, point.id, flush=True)  # noqa: T201  what the test reads


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
