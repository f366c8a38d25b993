"""Many devices that replicate into one CouchDB, or a cluster of three, at once and through faults.

--couchdb names the installation folder of Apache CouchDB 3.5, such as /opt/couchdb. The benchmark makes its
own nodes from it: one or three for the cloud, and one that has the databases of all devices with a real
replication each. Devices speak to two receivers (`growd cloud receive`) behind HAProxy, three in front of
three nodes; the reference is the same without receivers, straight into a database. A device stores
--points in a batch each --every seconds, so few devices at a high pace stand for many. Lag is the time from
the answer to the device's write until the follower of `_changes` in the cloud sees the point.

Scenarios: "steady"; "load", requests of devices without devices; "outage", no receiver while --backlog
points of each device are written; "receiver", "node", "hang" and "partition": a receiver or a node of three
is killed (-9), hangs (SIGSTOP) or is parted from the others while devices write; "alone", two of three nodes
hang, so that the third seems to be well; "twice", batches are sent again. After each, when the nodes have
copied to one another what they lack, all ids and revisions of the devices are compared once with those of
the cloud, and with the files of each node: a point that is missing is a failure.

Standard error says what each scenario does and which failed. The exit status is then 1.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
from fleet_devices import percentile
from fleet_faults import CATCH_UP_S, FAULT_SCENES, OF_A_CLUSTER, fault, label, wrong
from fleet_load import Load
from fleet_nodes import CouchDBError
from fleet_scene import scene
from measuring import Options, Row, has, limited, main

if TYPE_CHECKING:
    import argparse

    from fleet_scene import Scene

P99_S: Final = 1.0
BATCH_S: Final = 300.0  # points and events, each as in growd's default `[store] max_age_s`
REPORT_S: Final = 60.0
FEEDS: Final = 2_000
LADDER: Final = (500, 1_000, 2_000, 3_000, 4_000, 6_000, 8_000, 10_000)
failed: list[str] = []


# --- steady


async def steady(options: Options, nodes: int, *, receivers: bool) -> dict[str, float]:
    """Devices that write at their pace."""
    given = options.arguments
    async with scene(options, nodes, given.devices, receivers=receivers) as here:
        await here.replicate()
        assert here.relay is not None  # noqa: S101  it replicates
        async with here.followed():
            here.relay.up = here.relay.down = 0
            before, size, began = here.cpu_s(), here.cloud.file_bytes(), time.monotonic()
            await here.devices.write_steadily(options.seconds, given.every, given.points)
            last = await here.devices.ledger.all_there(CATCH_UP_S)
        used = {name: value - before[name] for name, value in here.cpu_s().items()}
        found = await here.audit()
        lags = here.devices.ledger.lags()
        thousands = len(lags) / 1e3
        print(f"requests: {dict(here.relay.requests.most_common(8))}", file=sys.stderr)
        return {
            "lag, p50 (s)": percentile(lags, 0.5),
            "lag, p99 (s)": percentile(lags, 0.99),
            "points that arrived (points/s)": len(lags) / (last - began),
            "CPU of CouchDB for 1000 points (s)": used["CouchDB"] / thousands,
            "CPU of receivers and HAProxy for 1000 points (s)": used["receivers and HAProxy"] / thousands,
            "on disk for each point and copy (bytes)": (here.cloud.file_bytes() - size) / len(lags) / nodes,
            "sent for each point (bytes)": here.relay.up / len(lags),
            "answered for each point (bytes)": here.relay.down / len(lags),
            "lost, doubled or changed (points)": wrong(found),
        }


def steady_rows(options: Options, nodes: int) -> list[Row]:
    with_receivers = asyncio.run(steady(options, nodes, receivers=True))
    without = asyncio.run(steady(options, nodes, receivers=False))
    rows = []
    for name, value in with_receivers.items():
        case, _, unit = name.removesuffix(")").rpartition(" (")
        limit = 0.0 if case.startswith("lost") else None
        rows.append(limited(f"{label(nodes)}: {case}", unit, value, limit, without[name]))
    return rows


# --- load


async def load(options: Options, nodes: int) -> list[Row]:
    """The highest rates, and the most devices with a p99 below the limit."""
    number, seconds = options.arguments.devices, options.seconds
    rates: dict[str, float] = {}
    costs: dict[str, float] = {}
    for name, receivers, guarded in (
        ("bare", False, False),
        ("guard", False, True),
        ("receiver", True, False),
    ):
        async with scene(options, nodes, number, receivers=receivers, guarded=guarded) as here:
            async with Load(here.url, here.logins, here.target) as clients:
                await clients.closed(lambda c=clients: c.write(100), 1.0)
                clients.documents = 0
                before = here.cpu_s()
                await clients.closed(lambda c=clients: c.write(100), seconds)
                rates[name] = clients.documents / seconds
                used = {part: value - before[part] for part, value in here.cpu_s().items()}
                costs[name] = sum(used.values()) / clients.documents * 1e3
                print(f"{name}: {clients.documents}, CPU {used}, errors {clients.errors}", file=sys.stderr)
            if receivers:
                reports, cost = await report_rate(here, seconds)
                most, p99 = await ladder(here, options)
                memory, beats = await open_feeds(here, max(seconds, 10.0))
    rows: list[tuple[str, str, float, float | None]] = [
        ("documents in batches of 100", "documents/s", rates["receiver"], rates["bare"]),
        ("documents, JavaScript guard", "documents/s", rates["guard"], rates["bare"]),
        ("CPU of 1000 documents", "s", costs["receiver"], costs["bare"]),
        ("CPU of 1000 documents, JavaScript guard", "s", costs["guard"], costs["bare"]),
        ("reports", "reports/s", reports, None),
        ("CPU of a report", "ms", cost, None),
        ("memory of an open feed of recipes", "kB", memory, None),
        ("CPU of 1000 such feeds", "% of a core", beats, None),
        (f"most devices with all p99 below {P99_S:g} s", "devices", most, None),
        ("p99 of _bulk_docs then", "s", p99, None),
    ]
    return [limited(f"{label(nodes)}: {case}", unit, ours, None, other) for case, unit, ours, other in rows]


async def report_rate(here: Scene, seconds: float) -> tuple[float, float]:
    """Reports a second, and ms of CPU for each."""
    async with Load(here.url, here.logins) as clients:
        before = sum(here.cpu_s().values())
        rate = await clients.closed(clients.report, seconds)
        print("reports", clients.errors, file=sys.stderr)
        return rate, (sum(here.cpu_s().values()) - before) / len(clients.times["PUT _device"]) * 1e3


async def open_feeds(here: Scene, seconds: float) -> tuple[float, float]:
    """What open feeds of recipes cost a receiver: kB for each, and percent of a core for 1000."""
    receiver = here.receivers[0]
    query = {"feed": "continuous", "style": "all_docs", "filter": "_selector", "heartbeat": "10000"}
    body = {"selector": {"_id": {"$regex": "^[^_]"}}}
    logins = [*here.logins.values()]
    before = receiver.process.rss_mb()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, AsyncExitStack() as stack:
        for n in range(FEEDS):
            fields = {"Authorization": aiohttp.encode_basic_auth(*logins[n % len(logins)])}
            asked = session.post(f"{receiver.url}/recipes/_changes", params=query, json=body, headers=fields)
            (await stack.enter_async_context(asked)).raise_for_status()
        size, used = receiver.process.rss_mb() - before, receiver.process.cpu_s()
        await asyncio.sleep(seconds)
        used = receiver.process.cpu_s() - used
    return size / FEEDS * 1e3, used / seconds / FEEDS * 1_000 * 100


async def ladder(here: Scene, options: Options) -> tuple[float, float]:
    """The most devices whose requests are answered in time, and the p99 of their `_bulk_docs`."""
    best = (0.0, 0.0)
    points = options.arguments.batch
    for number in LADDER:
        async with Load(here.url, here.logins) as clients:
            await clients.open(number, options.seconds, points, BATCH_S, REPORT_S)
            worst = {kind: percentile(sorted(times), 0.99) for kind, times in clients.times.items()}
            told = {kind: f"{value:.3f}" for kind, value in worst.items()}
            print(f"{number} devices: p99 {told}, errors {dict(clients.errors)}", file=sys.stderr)
            if clients.errors or max(worst.values()) > P99_S:
                break
            best = float(number), worst.get("POST _bulk_docs", 0.0)
    return best


SCENES: Final = {"steady": steady, "load": load, **FAULT_SCENES}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    default = "  [default: %(default)s]"
    add("--couchdb", type=Path, metavar="FOLDER", help="installation folder of Apache CouchDB 3.5")
    add("--scenario", choices=SCENES, action="append", help="only this one; repeatable")
    add("--nodes", type=int, choices=(1, 3), action="append", help="only this size of the cloud")
    add("--devices", type=int, default=200, help=f"real replications{default}")
    add("--every", type=float, default=20.0, help=f"seconds from batch to batch of a device{default}")
    add("--points", type=int, default=50, help=f"points of such a batch{default}")
    add(
        "--batch",
        type=int,
        default=200,
        help=f"points that a device of the load sends in ten minutes{default}",
    )
    add("--backlog", type=int, default=500, help=f"points of each device in an outage{default}")


def measure(options: Options) -> list[Row]:
    """The rows of all scenarios; what failed is added to `failed`, in words."""
    release = options.arguments.couchdb
    if release is None or not (release / "bin" / "couchdb").exists() or not has("haproxy"):
        print("needs --couchdb FOLDER, where Apache CouchDB 3.5 is installed, and haproxy", file=sys.stderr)
        return []
    found: list[Row] = []
    for nodes in options.arguments.nodes or (1, 3):
        for name in options.arguments.scenario or SCENES:
            if nodes > 1 or name not in OF_A_CLUSTER:
                found += tried(options, nodes, name)
            else:
                tell(f"{label(nodes)}, {name}: left out, it needs three nodes")
    return found


def tried(options: Options, nodes: int, name: str) -> list[Row]:
    """The rows of a scenario, none if it broke off."""
    case = f"{label(nodes)}, {name}"
    what = (SCENES[name].__doc__ or "").splitlines()[0]
    tell(f"{case}, {options.arguments.devices} devices: {what}")
    try:
        rows = scenario(options, nodes, name)
    except (OSError, CouchDBError, TimeoutError, aiohttp.ClientError, ExceptionGroup) as error:
        new, rows = [f"{case}: {reason(error)}"], []
    else:
        new = not_met(rows)
    for each in new:
        tell(f"FAILED: {each}")
    failed.extend(new)
    return rows


def scenario(options: Options, nodes: int, name: str) -> list[Row]:
    if name == "steady":
        return steady_rows(options, nodes)
    if name == "load":
        return asyncio.run(load(options, nodes))
    return asyncio.run(fault(options, nodes, name))


def not_met(rows: list[Row]) -> list[str]:
    """The rows that miss their target, in words."""
    return [f"{row.case}: {row.growd:g} {row.unit}, not {row.target}" for row in rows if not row.met]


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def reason(error: BaseException) -> str:
    """What went wrong, without a traceback: the first cause in a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


if __name__ == "__main__":
    main(measure, rounds=1, seconds=20.0, add_arguments=add_arguments)
    sys.exit(f"{len(failed)} failures, named above" if failed else 0)
