"""Lives of a store process for tests that kill it: writes points, runs and parameters, and ships them.

A program of its own. It has imported everything when it reads a job, a line of JSON, from its standard input,
and forks a life for each: milliseconds, where a start of Python takes half a second. What happens is
told on the standard output, one JSON array a line: first a word, as `support.ledger.Ledger` has them.
"""

import asyncio
import gc
import itertools
import json
import os
import random
import sys
import traceback
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from growd.runtime.clock import RealClock
from growd.runtime.pauses import Pauses
from growd.store import point_log
from growd.store.bootstrap import Databases, bootstrap
from growd.store.couch import Couch
from growd.store.embedded import EmbeddedDatabase
from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.memories import ParameterKeeper
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from growd.store.shipper import Shipper

ENV = "environment_1"
FILES = Path(__file__).parents[2] / "couchdb"
LOG_BYTES = 32 * 1024  # so small that points move into the file now and then
DRAIN_S = 50.0


def tell(*words):
    """Write a line at once: a kill leaves no half line, and none in a buffer."""
    try:
        os.write(1, json.dumps(words).encode() + b"\n")
    except BrokenPipeError:
        os._exit(1)  # the parent has ended


class TellingMaker(PointMaker):
    """Reports each point before it can be stored. Values are numbers, and so are times."""

    def make(self, environment, variable, value, timestamp, **options):
        point = super().make(environment, variable, value, timestamp, **options)
        tell("made", point.id, variable, value)
        return point


class TellingEmbedded(EmbeddedDatabase):
    """Reports each process that it starts."""

    async def _spawn(self):
        process = await super()._spawn()
        tell("node", process.pid)
        return process


class Life:
    """One life: an open store, and writers that run until they are killed or have made their steps."""

    def __init__(self, job, local, outbox):
        self.maker = TellingMaker(local.device)
        self.local = local
        self.outbox = outbox
        self.journal = RunJournal(local, outbox, self.maker, ENV)
        self.pace = job["pace"]
        self.first = job["first"]
        self.random = random.Random(f"life {job['first']}")
        self.steps = itertools.count() if job["steps"] is None else range(job["steps"])

    async def tell_found(self):
        for notice in [*self.local.notices, *self.outbox.notices]:
            tell("notice", notice)
        tell("found", "run", await self.journal.load())
        tell("found", "parameters", await self.local.parameters() or None)

    async def write(self):
        writers = (self.one_by_one("one"), self.in_bursts("burst"), self.unheard("unheard"))
        await asyncio.gather(*writers, self.runs(), self.parameters())

    async def one_by_one(self, variable):
        async for number in self.numbers():
            point = self.point(variable, number)
            self.outbox.add(point)
            await self.outbox.flush()
            tell("kept", point.id)

    async def in_bursts(self, variable):
        """Points of 1 to 12 numbers, and one flush for all."""
        async for number in self.numbers():
            ids = []
            for place in range(self.random.randint(1, 12)):
                point = self.point(variable, number + place / 100)
                self.outbox.add(point)
                ids.append(point.id)
            await self.outbox.flush()
            tell("kept", *ids)

    async def unheard(self, variable):
        """Add points without waiting for the commit, as the recorder does."""
        async for number in self.numbers():
            self.outbox.add(self.point(variable, number))
            await asyncio.sleep(0.002)

    async def runs(self):
        """Start, advance and end a run."""
        present = await self.journal.load()
        async for number in self.numbers():
            if present is None:
                present = {"recipe_id": f"recipe {number}", "elapsed": 0.0, "seen": number}
                await self.change_run(present, "recipe_start", number)
            elif self.random.random() < 0.5:
                present = present | {"elapsed": present["elapsed"] + 1.0, "seen": number}
                tell("begin", "run", present, None)
                await self.journal.progress(present)
                tell("did", "run")
            else:
                present = None
                await self.change_run(None, "recipe_end", number)

    async def change_run(self, run, variable, number):
        tell("begin", "run", run, [variable, str(number)])
        document = {"_id": f"run {number}", "what": variable}
        await self.journal.commit(run, variable, str(number), number / 1000, document)
        tell("did", "run")

    async def parameters(self):
        """Set two parameters together, and one that is set and deleted."""
        keeper = ParameterKeeper(self.local)
        async for number in self.numbers():
            pair = {"a/left": number, "a/right": number}
            removed = self.random.random() < 0.5
            state = pair if removed else pair | {"now_and_then": number}
            tell("begin", "parameters", state, None)
            await keeper.save(state, ["now_and_then"] if removed else [])
            tell("did", "parameters")

    def point(self, variable, number):
        return self.maker.make(ENV, variable, number, number / 10)

    async def numbers(self):
        for step in self.steps:
            yield self.first + step
            await asyncio.sleep(self.pace)


async def live(job):
    clock = RealClock()
    async with AsyncExitStack() as stack:
        local = await LocalStore.open(Path(job["folder"]) / "growd.sqlite3")
        stack.push_async_callback(local.close)
        outbox = await Outbox.open(local, clock, commit_interval=0.005)
        stack.push_async_callback(outbox.close)
        life = Life(job, local, outbox)
        await life.tell_found()
        session = await stack.enter_async_context(aiohttp.ClientSession())
        embedded = _embedded(job)
        couch = Couch(
            session, lambda: embedded.owner_url if embedded else job["url"], credentials=job["auth"]
        )
        shipper = _shipper(job, couch, outbox, embedded)
        tasks = [asyncio.create_task(part(), name="part") for part in (outbox.run, shipper.run)]
        if embedded:
            _say_when_up(embedded, shipper)
            database = asyncio.create_task(embedded.run(), name="database")
            stack.push_async_callback(_end, [database])
        await life.write()
        await _end(tasks)
        await outbox.flush()
        while await shipper.drain(DRAIN_S):
            tell("left", outbox.undelivered, str(shipper.fault))
            await asyncio.sleep(0.05)
        tell("left", outbox.undelivered, str(shipper.fault))


def _embedded(job):
    if not job["node"]:
        return None
    server = FILES / "embedded" / "server.mjs"
    folder = Path(job["folder"]) / "data"
    return TellingEmbedded(job["node"], server, folder, pauses=Pauses(0.01, 0.02))


def _say_when_up(embedded, shipper):
    def up():
        tell("up")
        shipper.retry_now()

    embedded.on_up = up


def _shipper(job, couch, outbox, embedded):
    names = Databases(*job["databases"])

    async def prepare():
        if embedded:
            await embedded.ready()
        await bootstrap(couch, FILES, "svc", names)

    return Shipper(
        couch,
        outbox,
        RealClock(),
        database=names.points,
        events=names.events,
        prepare=prepare if job["prepare"] else None,
        batch=20,
        max_batch=50,
        max_age=0.01,
        pauses=Pauses(0.005, 0.02),
    )


async def _end(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def serve():
    """Fork a life for each job, and wait for its end."""
    point_log.LOG_BYTES = LOG_BYTES
    gc.freeze()
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            _live_and_leave(line)
        tell("process", process)
        tell("ended", os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


def _live_and_leave(line):
    status = 1
    try:
        asyncio.run(live(json.loads(line)))
        status = 0
    except BaseException:  # noqa: BLE001  reported; the child must not run the code of the parent
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve()
