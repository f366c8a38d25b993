"""growd's core in a process of its own: the real bus, API and kept parameters, without hardware and database,
and the front door to the database at `--upstream`.

Prints its port once it listens; ends with its standard input. `bench/` drives it from outside.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from serving import ended, on_beat
from yarl import URL

from growd.api.api import Api
from growd.api.front_door import FrontDoor
from growd.api.operation import Limits
from growd.api.operations import operations_of
from growd.bus import Bus
from growd.bus.messages import FLOAT64
from growd.bus.params import Parameters
from growd.proxy.gateway import Gateway
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop
from growd.server.connections import ConnectionLimits
from growd.store.history.history import History
from growd.store.local import LocalStore
from growd.store.memories import ParameterKeeper
from growd.store.reading.source import PointSource
from growd_analysis.points.part import add_exports


async def consume(bus: Bus, node: str, topic: str) -> None:
    async for _ in bus.node(node).subscribe(topic):
        pass


async def publish(bus: Bus, topic: str, rate: float) -> None:
    publisher = bus.node("sensor").publisher(topic)
    await on_beat(lambda: publisher.publish(410.25), rate)


async def succeed() -> dict[str, Any]:
    return {"success": True, "message": ""}


def past(arguments: argparse.Namespace) -> History:
    """The history of `chamber`."""
    user, _, password = os.environ.get("GROWD_BENCH_LOGIN", "").partition(":")
    login = (user, password) if user else None
    address = URL(arguments.upstream or "http://127.0.0.1:1")
    events = arguments.events or arguments.points
    source = PointSource(
        address,
        arguments.points,
        events,
        "svc",
        login,
        rollups=arguments.rollups,
        lists_series=arguments.lists_series,
    )
    return History(lambda: source, nullcontext, lambda _: set())


async def serve(arguments: argparse.Namespace, folder: Path) -> None:
    local = await LocalStore.open(folder / "growd.sqlite3")
    bus = Bus(RealClock(), Parameters(await local.parameters(), ParameterKeeper(local)))
    topics = [f"chamber/measured/variable_{number}" for number in range(arguments.topics)]
    for topic in topics:
        bus.topics.declare(topic, FLOAT64.within(0, 40_000, "ppm"), is_open=True)
    if arguments.parameters:
        values = {f"parameter_{number}": number for number in range(arguments.parameters)}
        await bus.parameters.set("chamber", values)
    actuator = bus.node("actuator")
    for number in range(arguments.services):
        actuator.serve(f"chamber/service_{number}", "Empty", succeed)
    gateway = Gateway(lambda: arguments.upstream)
    connections = ConnectionLimits(header_timeout_s=arguments.header_timeout)
    add_exports(gateway, [arguments.points], "svc")
    history = past(arguments)
    limits = Limits(streams=2_000)
    api = Api(bus, bus.node("http"), "/_svc", operations_of(limits), limits, history=history)
    server = FrontDoor(api, gateway, connections)
    await history.__aenter__()
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
    await history.__aexit__()
    await gateway.close()
    await bus.parameters.close()
    await local.close()


def serve_until_ended() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--parameters", type=int, default=1)
    parser.add_argument("--services", type=int, default=0)
    parser.add_argument("--subscribers", type=int, default=0)
    parser.add_argument("--publish", type=float, default=0.0, metavar="HZ")
    parser.add_argument(
        "--header-timeout", type=float, default=ConnectionLimits().header_timeout_s, metavar="SECONDS"
    )
    parser.add_argument("--upstream", metavar="URL", help="the database behind the front door")
    parser.add_argument("--points", default="environmental_data_point", metavar="DATABASE")
    parser.add_argument("--events", metavar="DATABASE", help="that of the points if it is not given")
    parser.add_argument("--rollups", default="", metavar="DATABASE")
    parser.add_argument("--lists-series", action="store_true", help="the database is a CouchDB")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as folder:
        run_on_loop(serve(arguments, Path(folder)))


if __name__ == "__main__":
    serve_until_ended()
