"""growd's core in a process of its own: the real bus, API and kept parameters, without hardware and database,
and the front door to the database at `--upstream`.

Prints its port once it listens; ends with its standard input. `bench/` drives it from outside.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from lifetime import ended

from growd.bus import Bus
from growd.bus.messages import FLOAT64
from growd.bus.params import Parameters
from growd.clock import RealClock
from growd.event_loop import run_on_loop
from growd.http.api import Api, Limits
from growd.http.gateway import Gateway
from growd.http.server import Server
from growd.store.local import LocalStore
from growd.store.parameters import ParameterKeeper


async def consume(bus: Bus, node: str, topic: str) -> None:
    async for _ in bus.node(node).subscribe(topic):
        pass


async def publish(bus: Bus, topic: str, rate: float) -> None:
    """Publish `rate` messages a second, on a steady beat."""
    publisher = bus.node("sensor").publisher(topic)
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        publisher.publish(410.25)
        due += 1 / rate
        await asyncio.sleep(max(0.0, due - loop.time()))


async def serve(arguments: argparse.Namespace, folder: Path) -> None:
    local = await LocalStore.open(folder / "growd.sqlite3")
    bus = Bus(RealClock(), Parameters(await local.parameters(), ParameterKeeper(local)))
    topics = [f"chamber/measured/variable_{number}" for number in range(arguments.topics)]
    for topic in topics:
        bus.topics.declare(topic, FLOAT64.within(0, 40_000, "ppm"))
    if arguments.parameters:
        values = {f"parameter_{number}": number for number in range(arguments.parameters)}
        await bus.parameters.set("chamber", values)
    gateway = Gateway(lambda: arguments.upstream)
    server = Server(Api(bus, bus.node("http"), "_svc", Limits(streams=2_000)), gateway)
    await server.open("127.0.0.1", 0)
    parts = [consume(bus, f"reader_{number}", topics[0]) for number in range(arguments.subscribers)]
    if arguments.publish:
        parts.append(publish(bus, topics[0], arguments.publish))
    tasks = [asyncio.create_task(part, name="bench part") for part in parts]
    assert server.address is not None  # noqa: S101  it listens
    print(server.address[1], flush=True)
    await ended()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.close()
    await gateway.close()
    await bus.parameters.close()
    await local.close()


def serve_until_ended() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--parameters", type=int, default=1)
    parser.add_argument("--subscribers", type=int, default=0)
    parser.add_argument("--publish", type=float, default=0.0, metavar="HZ")
    parser.add_argument("--upstream", metavar="URL", help="the database behind the front door")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder:
        run_on_loop(serve(arguments, Path(folder)))


if __name__ == "__main__":
    serve_until_ended()
