"""Devices of a fleet as real replications, and what shows that each of their points arrives once.

The source databases of all devices are in one CouchDB. Each has the job in `_replicator` that growd writes,
so CouchDB's own replicator sends the points, and repeats what fails.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from fleet_nodes import ADMIN, CouchDBError

from growd.config import Replication
from growd.store.bootstrap import Databases
from growd.store.points import PointMaker
from growd.store.replication_documents import ReplicationServer, configured_jobs, restarted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet_nodes import Node

VARIABLES: Final = (
    "air_temperature",
    "air_humidity",
    "air_carbon_dioxide",
    "light_illuminance",
    "water_temperature",
    "water_potential_hydrogen",
    "water_electrical_conductivity",
    "water_level",
)
MANY: Final = 1_000  # documents of one request of the benchmark itself
AT_ONCE: Final = 8


@dataclass
class Ledger:
    """When each point was in the database of its device, and when the follower saw it in the cloud."""

    written: dict[str, float] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)

    def lags(self, after: float = 0.0) -> list[float]:
        """Seconds from device to cloud of the points written after a monotonic time, in order."""
        written = self.written
        lags = (at - written[key] for key, at in self.arrived.items() if written.get(key, 0.0) > after)
        return sorted(max(lag, 0.0) for lag in lags)  # the feed may be ahead of the answer to the device

    def waiting(self) -> int:
        """How many points are not there yet."""
        return len(self.written.keys() - self.arrived.keys())

    async def all_there(self, patience_s: float) -> float:
        """Wait until no point is missing, and return the monotonic time of the last arrival.

        `TimeoutError` if none has arrived for `patience_s`.
        """
        seen, changed = -1, time.monotonic()
        while missing := self.waiting():
            if len(self.arrived) != seen:
                seen, changed = len(self.arrived), time.monotonic()
            elif time.monotonic() - changed > patience_s:
                raise TimeoutError(
                    f"{missing} of {len(self.written)} points did not arrive; none came for {patience_s:g} s"
                )
            await asyncio.sleep(0.2)
        return max(self.arrived.values())


class Devices:
    """Many devices: a source database and a replication each."""

    def __init__(self, node: Node, names: Sequence[str]) -> None:
        self.node = node
        self.names = names
        self.ledger = Ledger()
        self._makers = {name: PointMaker(name) for name in names}
        self._documents: dict[str, dict[str, Any]] = {}

    async def make_databases(self) -> None:
        """A source database for each, and `_replicator`."""
        await self.node.asked("PUT", "/_replicator")
        await each(self.names, lambda name: self.node.ask("PUT", f"/source_{name}", q=1))

    async def replicate(self, url: str, logins: dict[str, tuple[str, str]], database: str) -> None:
        """Write the document of each device's replication of points (growd.store.replication_documents)."""
        local = ReplicationServer(self.node.url, (ADMIN, self.node.password))
        options = Replication(
            url=url, prefix=database.removesuffix("environmental_data_point"), events="off", recipes="off"
        )
        for name in self.names:
            (job,) = configured_jobs(options, Databases(points=f"source_{name}"), name)
            document = job.document(local, ReplicationServer(url, logins[name]))
            self._documents[job.id] = document
        await self.node.ask("POST", "/_replicator/_bulk_docs", {"docs": list(self._documents.values())})

    async def restart(self) -> None:
        """Restart all replications at one moment, as growd does when the server answers again."""
        rows = (await self.node.ask("GET", "/_replicator/_all_docs", include_docs="true"))["rows"]
        docs = [
            restarted(self._documents[row["id"]], row["doc"]) for row in rows if row["id"] in self._documents
        ]
        await self.node.ask("POST", "/_replicator/_bulk_docs", {"docs": docs})

    async def states(self) -> dict[str, int]:
        """How many jobs are in which state."""
        found: dict[str, int] = {}
        docs = (await self.node.ask("GET", "/_scheduler/docs/_replicator", limit=len(self.names)))["docs"]
        for doc in docs:
            found[doc["state"]] = found.get(doc["state"], 0) + 1
        return found

    async def write(self, name: str, number: int, began: float | None = None, step_s: float = 0.0) -> None:
        """Store points of a device: of the last moments, or `step_s` apart from the UNIX time `began` on."""
        now = time.time()
        docs = []
        for n in range(number):
            at = now - (number - n) * 0.01 if began is None else began + n * step_s
            variable = VARIABLES[n % len(VARIABLES)]
            value = round(20 + random.random() * 5, 2)
            docs.append(self._makers[name].make("environment_1", variable, value, at).document())
        for first in range(0, number, MANY):
            part = docs[first : first + MANY]
            await self.node.ask("POST", f"/source_{name}/_bulk_docs", {"docs": part})
            done = time.monotonic()
            self.ledger.written.update((doc["_id"], done) for doc in part)

    async def write_steadily(self, seconds: float, every_s: float, number: int) -> None:
        """Each device stores `number` points each `every_s`, the devices one after the other."""
        began = time.monotonic()
        step = every_s / len(self.names)
        limit = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for turn in range(round(seconds / step)):
                await asyncio.sleep(began + turn * step - time.monotonic())
                await limit.acquire()
                writing = tasks.create_task(self.write(self.names[turn % len(self.names)], number))
                writing.add_done_callback(lambda _: limit.release())

    async def documents(self, name: str) -> list[dict[str, Any]]:
        """The points of a device as a replicator sends them."""
        rows = (await self.node.ask("GET", f"/source_{name}/_all_docs", include_docs="true"))["rows"]
        return [row["doc"] for row in rows]

    async def revisions(self) -> dict[str, str]:
        """The revision of each point in the source databases, by id."""
        found: dict[str, str] = {}

        async def read(name: str) -> None:
            rows = (await self.node.ask("GET", f"/source_{name}/_all_docs"))["rows"]
            found.update((row["id"], row["value"]["rev"]) for row in rows)

        await each(self.names, read)
        return found


class Follower:
    """Notes in the ledger which points arrive, from the feed `_changes`."""

    def __init__(self, node: Node, ledger: Ledger) -> None:
        self._node = node
        self._ledger = ledger

    async def follow(self, database: str) -> None:
        """Read the feed until cancelled. After an error it goes on from its position."""
        since = "0"
        while True:
            try:
                since = await self._read(database, since)
            except (aiohttp.ClientError, CouchDBError, TimeoutError):
                await asyncio.sleep(0.2)

    async def _read(self, database: str, since: str) -> str:
        query = {"feed": "continuous", "since": since, "heartbeat": "5000"}
        url = f"{self._node.url}/{database}/_changes"
        patience = aiohttp.ClientTimeout(total=None, sock_read=20)
        async with self._node.session.get(url, params=query, timeout=patience) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.strip():
                    change = json.loads(line)
                    if "id" in change:
                        self._ledger.arrived.setdefault(change["id"], time.monotonic())
                    since = change.get("seq") or change.get("last_seq") or since
        return since


@dataclass(frozen=True)
class Audit:
    """What a comparison of all devices with the cloud found; all but `points` should be 0."""

    points: int
    missing: int
    foreign: int
    twice: int
    conflicts: int
    different: int

    @property
    def is_whole(self) -> bool:
        """Whether each point is in the cloud exactly once."""
        return not (self.missing or self.foreign or self.twice or self.conflicts or self.different)


async def audit(devices: Devices, node: Node, databases: Iterable[str]) -> Audit:
    """Compare ids and revisions of the sources with those of the cloud's databases.

    A revision is computed from the content, so the same revision is the same point. `style=all_docs` lists
    all leaves of a document: more than one is a conflict.
    """
    expected = await devices.revisions()
    seen: dict[str, str] = {}
    twice = conflicts = 0
    for database in databases:
        rows = (await node.ask("GET", f"/{database}/_changes", style="all_docs"))["results"]
        for row in rows:
            if row["id"].startswith("_design/"):
                continue
            twice += row["id"] in seen
            conflicts += len(row["changes"]) > 1
            seen[row["id"]] = row["changes"][0]["rev"]
    different = sum(seen[key] != rev for key, rev in expected.items() if key in seen)
    missing, foreign = len(expected.keys() - seen.keys()), len(seen.keys() - expected.keys())
    return Audit(len(expected), missing, foreign, twice, conflicts, different)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the ordered values are; NaN without values."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


async def each(names: Iterable[str], do: Any) -> None:
    """Do something for each name, a few at a time."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with limit:
            await do(name)

    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(one(name))
