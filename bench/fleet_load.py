"""Requests of devices without devices: one program that sends what replicators and growd send.

A visit of a device is what its replicator sends for a batch: `_revs_diff`, `_bulk_docs` and, as each 30 s at
most, `_ensure_full_commit` and the checkpoint. A report is growd's PUT /_device.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
import msgspec
from fleet_devices import VARIABLES

from growd.store.points import PointMaker

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_UNDER_WAY: Final = 2_000
CONNECTIONS: Final = 64
POINTS: Final = "environmental_data_point"


class Load:
    """Clients that share connections, as HAProxy's do; counts answers and takes their times."""

    def __init__(self, url: str, logins: Mapping[str, tuple[str, str]], database: str = POINTS) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self.documents = 0
        self._url = url
        self._database = database
        self._devices = [
            (PointMaker(name), aiohttp.encode_basic_auth(*login)) for name, login in logins.items()
        ]
        self._turn = itertools.cycle(self._devices)
        self._checkpoints: dict[str, str] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None  # noqa: S101  entered
        await self._session.close()

    async def visit(self, number: int) -> None:
        """A batch of new points of any device, whole with the checkpoint."""
        maker, login = next(self._turn)
        batch = _batch(maker, number)
        wanted = {document["_id"]: [document["_rev"]] for document in batch}
        path = f"/{self._database}"
        await self._send("POST", f"{path}/_revs_diff", login, wanted)
        if (
            await self._send("POST", f"{path}/_bulk_docs", login, {"docs": batch, "new_edits": False})
            is not None
        ):
            self.documents += number
        await self._send("POST", f"{path}/_ensure_full_commit", login, {})
        await self._checkpoint(maker.device, login)

    async def write(self, number: int) -> None:
        """A batch of new points, `_bulk_docs` alone."""
        maker, login = next(self._turn)
        body = {"docs": _batch(maker, number), "new_edits": False}
        if await self._send("POST", f"/{self._database}/_bulk_docs", login, body) is not None:
            self.documents += number

    async def report(self) -> None:
        """A report of a chamber with the whole climate."""
        maker, login = next(self._turn)
        values = {
            name: {"value": 20 + random.random(), "set_point": 21.0, "quality": "ok", "unit": "C"}
            for name in VARIABLES
        }
        environment = {"recipe": "climate_day", "phase": "day", "remaining_s": 3_600.0, "values": values}
        body = {
            "name": f"chamber {maker.device}", "version": "1.0", "time": time.time(), "api": "", "alerts": [],
            "lag": {"points": 0, "events": 0, "recipes_down": 0}, "points_waiting": 0,
            "disk_free_bytes": 10_000_000_000, "environments": {"environment_1": environment},
        }  # fmt: skip
        await self._send("PUT", "/_device", login, body)

    async def closed(self, do: Any, seconds: float, at_once: int = 16) -> float:
        """Repeat something, `at_once` at a time, and return how often a second."""
        began = time.monotonic()
        end = began + seconds
        done = 0

        async def repeat() -> None:
            nonlocal done
            while time.monotonic() < end:
                await do()
                done += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(repeat())
        return done / (time.monotonic() - began)

    async def open(self, devices: int, seconds: float, points: int, batch_s: float, report_s: float) -> float:
        """Send what so many devices send, whether or not answers come; how many seconds too long it took.

        Each stores `points` in a batch each `batch_s`, and reports each `report_s`.
        """
        under_way: set[asyncio.Task[None]] = set()
        began = time.monotonic()
        next_batch, next_report = 0.0, 0.0
        while (at := min(next_batch, next_report)) < seconds and len(under_way) < MOST_UNDER_WAY:
            await asyncio.sleep(began + at - time.monotonic())
            if next_batch <= next_report:
                next_batch += batch_s / devices
                task = asyncio.create_task(self.visit(points))
            else:
                next_report += report_s / devices
                task = asyncio.create_task(self.report())
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        if under_way:
            await asyncio.wait(under_way)
        return time.monotonic() - began - seconds

    async def _checkpoint(self, device: str, login: str) -> None:
        name = hashlib.md5(device.encode(), usedforsecurity=False).hexdigest()
        body = {"session_id": name, "source_last_seq": 1, "replication_id_version": 4, "history": []}
        if rev := self._checkpoints.get(device):
            body["_rev"] = rev
        answer = await self._send("PUT", f"/{self._database}/_local/{name}", login, body)
        if answer is not None:
            self._checkpoints[device] = answer["rev"]

    async def _send(self, method: str, path: str, login: str, body: Any) -> Any:
        assert self._session is not None  # noqa: S101  entered
        kind = f"{method} {path.rpartition('/')[2] if '_local' not in path else '_local'}"
        fields = {"Content-Type": "application/json", "Authorization": login}
        began = time.monotonic()
        try:
            async with self._session.request(
                method, self._url + path, data=msgspec.json.encode(body), headers=fields
            ) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.errors[f"{kind}: {type(error).__name__}"] += 1
            return None
        self.times[kind].append(time.monotonic() - began)
        if answer.status not in {200, 201}:
            self.errors[f"{kind}: {answer.status}"] += 1
            return None
        return msgspec.json.decode(content)


def _batch(maker: PointMaker, number: int) -> list[dict[str, Any]]:
    """New points as a replicator sends them: with a revision."""
    now = time.time()
    docs = []
    for n in range(number):
        value = round(20 + random.random() * 5, 2)
        point = maker.make("environment_1", VARIABLES[n % len(VARIABLES)], value, now - (number - n) * 0.01)
        revision = f"{random.getrandbits(128):032x}"
        revisions = {"start": 1, "ids": [revision]}
        docs.append(point.document() | {"_rev": f"1-{revision}", "_revisions": revisions})
    return docs
