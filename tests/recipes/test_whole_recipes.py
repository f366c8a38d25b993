"""A recipe of 41 days, undisturbed and with twenty kills."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import sqlite3
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from growd.recipes.interpreter import interpret
from recipes.killed_run import BEGAN, PERIOD_S

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parent / "killed_run.py"
KILLS = 20
SEED = 41
DAYS, DAY_S = 41, 86_400.0
PATIENCE_S = 120.0
LEASH_S = 6 * 3_600.0
VARIABLES = ["air_carbon_dioxide", "air_temperature", "light_illuminance"]


def day(lux, ppm):
    return {
        "light_illuminance": [
            {"at": "06:00", "value": 0, "to_next": "sine"},
            {"at": "07:30", "value": lux},
            {"at": "21:00", "value": lux, "to_next": "ramp"},
            {"at": "22:00", "value": 0},
        ],
        "air_carbon_dioxide": [{"at": "07:00", "value": ppm}, {"at": "21:30", "value": 400}],
    }


WHOLE = {
    "_id": "whole",
    "format": "phased",
    "phases": [
        {"name": "germination", "duration": 4, "time_units": "days", "daily": day(2_000, 400)},
        {
            "name": "seedling",
            "duration": 14,
            "time_units": "days",
            "daily": day(6_000, 800),
            "course": {
                "air_temperature": [{"at": 0, "value": 24, "to_next": "ramp"}, {"at": 14 / 2, "value": 21}]
            },
        },
        {
            "name": "growth",
            "duration": 23,
            "time_units": "days",
            "daily": day(12_000, 1_000),
            "course": {"air_temperature": [{"at": 0, "value": 22}, {"at": 0.5, "value": 19}]},
            "cycle": 1,
        },
    ],
}


class Lives:
    def __init__(self, program, folder):
        self._program = program
        self._folder = folder
        self._time = (folder / "time").open("w+")
        self.count = 0

    def now(self):
        self._time.seek(0)
        return float(self._time.read() or BEGAN)

    def close(self):
        self._time.close()

    async def live(self, until=None):
        """One process, killed soon after its time reaches `until`; returns whether the recipe ended.

        However late that is seen, it gets no further than `LEASH_S` beyond, nor to the end.
        """
        end = math.inf if until is None else min(until + LEASH_S, BEGAN + DAYS * DAY_S - PERIOD_S)
        job = {"folder": str(self._folder), "recipe": WHOLE, "variables": VARIABLES, "end": end}
        self._program.stdin.write(json.dumps(job).encode() + b"\n")
        process = int(await self._program.stdout.readline())
        self.count += 1
        ended = asyncio.create_task(self._program.stdout.readline(), name="end of a life")
        while until is not None and not ended.done() and self.now() < until:  # noqa: ASYNC110  there is no event
            await asyncio.sleep(0.003)
        if until is not None and not ended.done():
            os.kill(process, signal.SIGKILL)
        return int(await ended) == 0

    def set_points(self):
        """The times and values of each topic, without repetitions."""
        found = {}
        for line in (self._folder / "log").read_text().splitlines():
            topic, when, value = json.loads(line)
            course = found.setdefault(topic, [])
            if not course or course[-1][1] != value:
                course.append((when, value))
        return found

    def documents(self):
        with sqlite3.connect(self._folder / "growd.sqlite3") as file:
            query = "SELECT value FROM state WHERE key LIKE 'document of a run/%'"
            return [json.loads(value) for (value,) in file.execute(query)]


@asynccontextmanager
async def lives_in(folder):
    folder.mkdir()
    (folder / "time").touch()
    program = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    lives = Lives(program, folder)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield lives
    finally:
        lives.close()
        program.stdin.close()
        await program.communicate()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The set points of the whole recipe, and the documents of its run."""

    async def run():
        async with lives_in(tmp_path_factory.mktemp("whole") / "whole") as lives:
            assert await lives.live()
            return lives.set_points(), lives.documents()

    return asyncio.run(run())


def test_a_recipe_of_41_days_runs_completely(undisturbed):
    set_points, (document,) = undisturbed
    plan, _ = interpret(WHOLE)
    for variable in VARIABLES:
        course = dict(set_points[f"e/desired/{variable}"])
        value = None
        for tick in range(int(DAYS * DAY_S / PERIOD_S)):
            now = BEGAN + tick * PERIOD_S
            value = course.get(now, value)
            assert value == plan.set_points(now - BEGAN, (now - BEGAN) % DAY_S).get(variable), (variable, now)
        assert course[max(course)] is None  # and then it lets go
    assert (document["end_reason"], document["elapsed"]) == ("finished", DAYS * DAY_S)


@pytest.mark.kill
async def test_twenty_kills_lose_no_set_point(tmp_path, undisturbed):
    moments = sorted(random.Random(SEED).uniform(BEGAN, BEGAN + DAYS * DAY_S) for _ in range(KILLS))
    async with lives_in(tmp_path / "killed") as lives:
        for moment in moments:
            assert not await lives.live(until=moment)
        assert await lives.live()
        assert lives.count == KILLS + 1
        assert lives.set_points() == undisturbed[0]
        (document,) = lives.documents()
    assert document["end_reason"] == "finished"
