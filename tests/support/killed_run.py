"""A recipe runner in its own process, weeks in seconds, for `recipe_run`.

Each line on standard input is a job, for which a process is forked; its id is printed. It runs the real
runner, bus and journal on a clock that jumps to the next tick when nothing is left to do. The time is saved
in a file, and the next process continues there: no time passes between two processes, so no set point is
skipped and all can be compared. The process stops at the `end` of its job, if there is one.
"""

import asyncio
import functools
import heapq
import json
import math
import os
import sys
from datetime import UTC
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from growd.bus import Bus
from growd.bus.params import Parameters
from growd.control.topics import declare_environment
from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.recipes.services import RecipeServices
from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.outbox import Outbox
from growd.store.points import PointMaker
from support.clock import ManualClock

BEGAN = 1_767_225_600.0  # 2026-01-01
PERIOD_S = 900.0
PROGRESS_S = 3_600.0


class OwnPace(ManualClock):
    """A clock that jumps to the next sleeper when the loop is idle and no write is pending."""

    def __init__(self, time, file, end):
        super().__init__(time)
        self._file = file
        self._end = end
        self.writing = 0

    async def sleep(self, seconds):
        await self._new_sleeper(seconds)

    async def run(self, until):
        ready = asyncio.get_running_loop()._ready
        while not until():
            await asyncio.sleep(0)
            if ready:
                continue
            if self.writing or self.time() >= self._end:
                await asyncio.sleep(0.0002)
                continue
            _, _, wake = self._next()
            if not wake.done():
                os.pwrite(self._file, f"{self.time():.3f}".encode(), 0)
                wake.set_result(None)

    def _next(self):
        due = heapq.heappop(self._sleepers)
        self._now = max(self._now, due[0])
        return due


def counting(clock, write):
    @functools.wraps(write)
    async def counted(*arguments):
        clock.writing += 1
        try:
            return await write(*arguments)
        finally:
            clock.writing -= 1

    return counted


async def live(job):
    """Run the recipe of the job to its end."""
    folder, recipe = Path(job["folder"]), job["recipe"]
    time = float((folder / "time").read_text() or BEGAN)
    begin = BEGAN + math.ceil((time - BEGAN) / PERIOD_S) * PERIOD_S
    clock = OwnPace(begin, os.open(folder / "time", os.O_WRONLY), job.get("end", math.inf))
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    local = await LocalStore.open(folder / "growd.sqlite3")
    local.write = counting(clock, local.write)
    outbox = await Outbox.open(local, clock)
    bus = Bus(clock, Parameters())
    declare_environment(bus, "e", [])
    runner = new_runner(bus, local, outbox, recipe)
    topics = [f"e/desired/{variable}" for variable in job["variables"]]
    with bus.node("log").subscribe(*topics) as set_points:
        tasks = [
            asyncio.create_task(runner.run(), name="runner"),
            asyncio.create_task(write_down(set_points, log), name="log"),
        ]
        clock.writing += 1
        while not runner.is_loaded:  # noqa: ASYNC110  there is no event
            await asyncio.sleep(0)
        if (await outbox_starts(local)) == 0:
            answer = await bus.services.get("e/start_recipe").call(["whole"])
            assert answer["success"], answer
        clock.writing -= 1
        await clock.run(lambda: runner._active is None)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    await outbox.close()
    await local.close()


def new_runner(bus, local, outbox, recipe):
    async def fetch(_recipe_id):
        return recipe

    library = Library(fetch, None)
    runner = RecipeRunner(
        bus,
        "e",
        library=library,
        journal=RunJournal(local, outbox, PointMaker(local.device), "e"),
        zone=UTC,
        period_s=PERIOD_S,
        progress_s=PROGRESS_S,
    )
    RecipeServices(runner, "e", library, bus.clock, UTC)
    return runner


async def outbox_starts(local):
    """The number of documents of runs."""
    query = "SELECT count(*) FROM state WHERE key LIKE 'document of a run/%'"
    (count,) = await local.read(lambda file: file.execute(query).fetchone())
    return int(count)


async def write_down(set_points, log):
    """Each set point that differs from the previous one of its topic."""
    last = {}
    async for message in set_points:
        if last.get(message.topic, ...) != message.value:
            last[message.topic] = message.value
            os.write(log, json.dumps([message.topic, message.time, message.value]).encode() + b"\n")


def serve():
    """Fork a process for each job; print its id and how it ended."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            asyncio.run(live(json.loads(line)))
            os._exit(0)
        report(process)
        _, status = os.waitpid(process, 0)
        report(status)


def report(number):
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve()
