"""The service that simulates a recipe: its process, whatever that does, and its report."""

import json
import os
import resource
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest

from growd.config import Config
from growd.recipes.library import Library
from growd_analysis.reports.elements import POLICY
from growd_simulation.recipes.part import opened, report_operation
from growd_simulation.recipes.service import RecipeSimulation
from support.daemon import serving
from support.waiting import until_found

E = "environment_1"
RECIPE = {
    "format": "simple",
    "operations": [[0, "light_illuminance", 8_000], [86_400, "light_illuminance", 0]],
}

# It takes the place of `growd simulate`, and does what the member `act` of the recipe says.
STAND_IN = """
import json, os, pathlib, sys, time
def say(**step): print(json.dumps(step), flush=True)
while pathlib.Path("/proc/self/oom_score_adj").read_text() != "1000\\n":  # the last limit
    time.sleep(0.001)
say(done=0.25, speed=os.getpid())
act = json.loads(pathlib.Path("recipe.json").read_text()).get("act", "")
report = "<p>" + json.dumps({
    "arguments": sys.argv[1:], "environment": dict(os.environ),
    "modes": [oct(p.stat().st_mode & 0o777) for p in (pathlib.Path("."), *pathlib.Path(".").iterdir())],
    "configuration": pathlib.Path("growd.toml").read_text(),
})
time.sleep(3600 * (act == "hang"))
while act == "flood": print("x" * 4096)
while act == "endless line": sys.stdout.write("x" * 65536)
if act == "memory": bytearray(1 << 30)
if act == "large": report += "x" * (9 << 20)
if act == "killed": os.kill(os.getpid(), 9)
if act == "refuses": sys.exit("a warning\\ngrowd: the recipe wants too much\\x1b")
if act == "silent": sys.exit(2)
if act != "no report": pathlib.Path("report.html").write_text(report)
print("no step"); print('{"done": 7}'); print("[1]")
say(summary={"doses": 3})
"""
COMMAND = (sys.executable, "-c", STAND_IN)


class Rig:
    """A simulation behind the API of a daemon."""

    def __init__(self, daemon, folder, **options):
        self.daemon, self.folder = daemon, folder
        self.recipes = {"day": RECIPE, "wrong": RECIPE | {"operations": []}}
        self.simulation = RecipeSimulation(daemon.bus, folder, **{"command": COMMAND, **options})
        daemon.api.offer([report_operation(self.simulation)])
        self.simulation.serve(E, Library(self._fetch, None), lambda: "seed = 7\n")

    async def _fetch(self, recipe_id):
        return deepcopy(self.recipes[recipe_id])

    async def begin(self, recipe_id="day", days=3, act=""):
        self.recipes["day"] = RECIPE | {"act": act}
        body = {"recipe_id": recipe_id, "days": days, "lang": "de"}
        return await self.daemon.ask("POST", f"/service/{E}/simulate_recipe", json=body)

    async def stop(self):
        return await self.daemon.ask("POST", f"/service/{E}/stop_simulation")

    async def state(self):
        return (await self.daemon.ask("GET", "/node/simulator/recipe")).json["simulation"]

    async def process(self):
        """The id of the process, once it runs."""

        async def look():
            return (await self.state())["speed"]

        return int(await until_found(look))

    async def ended(self, **options):
        """The state after a simulation, which has left no files."""
        answer = await self.begin(**options)
        assert answer.status == 200, answer.body.decode()

        async def look():
            found = await self.state()
            return None if found["state"] == "running" else found

        found = await until_found(look)
        assert not self.folder.exists()
        return found

    async def report(self):
        return await self.daemon.ask("GET", "/simulation_report")


def entry(pid):
    return Path(f"/proc/{pid}")


@asynccontextmanager
async def simulating(folder, **options):
    async with serving() as daemon:
        rig = Rig(daemon, folder, **options)
        try:
            yield rig
        finally:
            await rig.simulation.close()


@pytest.fixture
async def rig(tmp_path):
    async with simulating(tmp_path / "simulation.part") as rig:
        yield rig


async def test_a_recipe_is_simulated_and_its_report_is_shown(rig, monkeypatch):
    monkeypatch.setenv("GROWD_COUCHDB__URL", "http://user:secret@127.0.0.1")
    assert await rig.state() == {"state": "idle"}
    assert (await rig.report()).status == 404
    found = await rig.ended(days=3)
    assert found["reason"] == ""
    assert (found["state"], found["environment"], found["recipe_id"], found["days"]) == ("done", E, "day", 3)
    assert (found["done"], found["summary"]) == (0.25, {"doses": 3})
    answer = await rig.report()
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    seen = json.loads(answer.body.decode().removeprefix("<p>"))
    options = ["--config", "growd.toml", "--days", "3", "--lang", "de", "-o", "report.html", "--json"]
    assert seen["arguments"] == ["recipe.json", *options]
    assert seen["modes"] == ["0o700", "0o600", "0o600"]
    assert "GROWD_COUCHDB__URL" not in seen["environment"]
    assert seen["configuration"] == "seed = 7\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("refuses", "the recipe wants too much\\x1b"),
        ("silent", "status 2"),
        ("killed", "signal 9"),
        ("no report", "no report"),
        ("large", "File too large"),
        ("memory", "MemoryError"),
        ("flood", "too much"),
        ("endless line", "too much"),
    ],
)
async def test_a_process_that_fails_is_a_failure_with_its_reason(rig, act, said):
    found = await rig.ended(act=act)
    assert found["state"] == "failed"
    assert said in found["reason"]
    assert len(found["reason"]) <= 500
    assert (await rig.report()).status == 404
    assert (await rig.ended())["state"] == "done"


@pytest.mark.parametrize(
    ("folder", "options"),
    [
        ("simulation.part", {"limit_s": 0.5}),  # a process that hangs is killed
        ("simulation.part", {"command": ("/nowhere/growd",)}),
        ("missing/simulation.part", {}),
    ],
    ids=["hangs", "no program", "no folder"],
)
async def test_what_cannot_run_to_its_end_is_a_failure(tmp_path, folder, options):
    async with simulating(tmp_path / folder, **options) as rig:
        assert (await rig.ended(act="hang"))["state"] == "failed"


async def test_one_runs_at_a_time_and_can_be_stopped(rig):
    assert (await rig.stop()).status == 400
    assert (await rig.begin(act="hang")).status == 200
    pid = await rig.process()
    second = await rig.begin()
    assert (second.status, second.json["error"]) == (400, "refused")
    assert "day" in second.json["message"]
    assert (await rig.stop()).status == 200
    assert (await rig.state())["state"] == "idle"
    assert not entry(pid).exists()
    assert not rig.folder.exists()
    assert (await rig.ended())["state"] == "done"


async def test_it_gives_way_to_everything_else_and_ends_with_growd(tmp_path):
    async with simulating(tmp_path / "simulation.part") as rig:
        await rig.begin(act="hang")
        pid = await rig.process()
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
        assert resource.prlimit(pid, resource.RLIMIT_DATA)[1] < 1 << 30
    assert not entry(pid).exists()
    assert not rig.folder.exists()


async def test_what_cannot_be_simulated_is_refused_and_changes_nothing(rig):
    await rig.ended()
    wrong = (("unknown", 3, "refused"), ("wrong", 3, "refused"), ("day", 0, "invalid_value"))
    for recipe_id, days, code in (*wrong, ("day", 101, "invalid_value")):
        answer = await rig.begin(recipe_id, days)
        assert (answer.status, answer.json["error"]) == (400, code)
    assert (await rig.state())["state"] == "done"
    assert (await rig.report()).status == 200


class StoredRecipes:
    """A database."""

    async def recipe(self, recipe_id):
        raise LookupError(recipe_id)


async def test_files_of_a_killed_growd_are_removed_at_the_start(tmp_path):
    left = tmp_path / "simulation.part"
    left.mkdir()
    (left / "growd.toml").touch()
    async with AsyncExitStack() as stack:
        daemon = await stack.enter_async_context(serving())
        around = SimpleNamespace(
            present=Config, bus=daemon.bus, data=tmp_path, api=daemon.api, database=StoredRecipes()
        )
        await stack.enter_async_context(opened(around))
        assert not left.exists()
        answer = await daemon.ask("POST", f"/service/{E}/simulate_recipe", json=["unknown", 1])
        assert (answer.status, answer.json["error"]) == (400, "refused")
