"""A run from its start to its export, and the export replayed: the simulator measures what was recorded."""

import asyncio
import json
from bisect import bisect_right
from contextlib import asynccontextmanager

import pytest

from growd.bus.messages import Quality
from growd.config import Config, FilterOptions, Light, Sensor, Simulator, Store
from growd.recipes.circumstances import circumstances
from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.store.journal import RunJournal
from growd.store.local import LocalStore
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from growd.store.run_documents import RunDocuments
from growd.store.shipper import Shipper
from support.history import ENVIRONMENT
from support.outbox import opened
from support.rig import rigged
from support.running import in_tasks
from support.runs import export_run
from support.waiting import until

pytestmark = pytest.mark.long

LASTED_S = 1_200.0
TOLERANCE = {  # noise and rounding of the simulated chips
    "air_carbon_dioxide": lambda _: 10.01,
    "air_temperature": lambda _: 0.101,
    "air_humidity": lambda _: 0.501,
    "light_illuminance": lambda lux: 1.0 + 0.015 * lux,
}
SENSORS = (
    Sensor(name="scd30_1", kind="scd30", interval_s=10.0),
    Sensor(name="bh1750_1", kind="bh1750", interval_s=10.0),
)
RECIPE = {
    "_id": "evening",
    "_rev": "1-a",
    "format": "simple",
    "operations": [
        [0, "light_illuminance", 9_000],
        [600, "light_illuminance", 3_000],
        [3_600, "light_illuminance", 0],
    ],
}


def config(replay=""):
    return Config(
        sensor=SENSORS,
        light=Light(enabled=True),
        filter=FilterOptions(weight=1.0),
        simulator=Simulator(replay=replay),
        store=Store(minimum_interval_s=1.0, maximum_interval_s=60.0),
    )


@pytest.fixture(autouse=True)
def quiet_loop():
    """Without the check for leftover tasks: the samplers end with the rig."""


@asynccontextmanager
async def growd(rig, stored, folder):
    """The store and the recipes beside a chamber."""
    names, clock = stored.names, rig.clock
    local = await LocalStore.open(folder / "growd.sqlite3")
    maker = PointMaker(local.device)

    async def prepare():
        """The databases are there."""

    async def fetch(_):
        return dict(RECIPE)

    documents = RunDocuments(local, stored.couch, clock, database=names.runs, prepare=prepare)
    async with opened(local, clock) as outbox:
        shipper = Shipper(stored.couch, outbox, clock, database=names.points, events=names.events)
        runner = RecipeRunner(
            rig.bus,
            ENVIRONMENT,
            library=Library(fetch, None),
            journal=RunJournal(local, outbox, maker, ENVIRONMENT, documents.work.wake),
            about=lambda: circumstances(config(), rig.bus, ENVIRONMENT),
        )
        recorder = Recorder(rig.bus, outbox, maker, [ENVIRONMENT], config().store)
        async with in_tasks(outbox, recorder, documents.work, runner):
            await until(lambda: runner.is_loaded)  # it reads the file, while no time of the clock passes
            yield shipper
            await outbox.flush()
            assert await shipper.drain(30.0) == 0
    await local.close()


async def ran(stored, folder):
    """Run the recipe and stop it; the id of the run."""
    async with rigged(config()) as rig, growd(rig, stored, folder):
        service = rig.bus.services.get(f"{ENVIRONMENT}/start_recipe")
        started = await service.call({"recipe_id": "evening"}, "ada")
        assert started["success"], started
        await rig.clock.advance(LASTED_S)
        await rig.bus.services.get(f"{ENVIRONMENT}/stop_recipe").call({}, "bob")
        async with asyncio.timeout(30):
            while True:
                rows = await stored.couch.all_docs(stored.names.runs, include_docs=True)
                found = [row["doc"] for row in rows if row["doc"].get("end_reason")]
                if found:
                    return str(found[0]["_id"])


async def replayed(path, length_s):
    """What the simulator measures with the file of a run: seconds since the first recorded value, value."""
    found = {}
    async with rigged(config(str(path))) as rig:
        start = rig.clock.monotonic()
        topics = {f"{ENVIRONMENT}/measured/{variable}": variable for variable in TOLERANCE}
        node = rig.bus.node("reader")

        async def listen():
            with node.subscribe(*topics, depth=1_000) as messages:
                async for message in messages:
                    if message.quality is Quality.OK and message.value is not None:
                        series = found.setdefault(topics[message.topic], [])
                        series.append((rig.clock.monotonic() - start, message.value))

        listening = asyncio.create_task(listen(), name="reader")
        await rig.clock.advance(length_s)
        listening.cancel()
        await asyncio.wait([listening])
    return found


async def test_a_run_is_recorded_exported_and_replayed(stored, archive, tmp_path):
    run_id = await ran(stored, tmp_path)
    run = await export_run(archive, stored.source, run_id, tmp_path / "run.zip")
    record = run.json("run.json")
    assert (record["started_by"], record["ended_by"], record["end_reason"]) == ("ada", "bob", "stopped")
    assert record["ended"] - record["started"] == pytest.approx(LASTED_S, abs=5)
    assert [one["name"] for one in record["configuration"]["sensor"]] == ["scd30_1", "bh1750_1"]
    assert json.dumps(RECIPE["operations"]) == json.dumps(run.json("recipes/1.json")["operations"])
    set_points = [row["value"] for row in run.rows("points.csv") if row["category"] == "desired"]
    assert set_points[:2] == ["9000", "3000"]

    rows = [(float(row["timestamp"]), row["variable"], float(row["value"])) for row in run.rows("replay.csv")]
    first = min(time for time, _, _ in rows)
    recorded = {name: [(time - first, value) for time, of, value in rows if of == name] for name in TOLERANCE}
    assert all(len(series) > 5 for series in recorded.values()), recorded
    length_s = max(time for time, _, _ in rows) - first
    found = await replayed(await asyncio.to_thread(run.unpack) / "replay.csv", length_s)
    assert found.keys() == TOLERANCE.keys()
    for variable, series in found.items():
        assert len(series) > 50
        for time, value in series:
            close = [held(recorded[variable], at) for at in (time, time - 11.0)]  # of the last reading
            assert any(one is not None and abs(value - one) <= TOLERANCE[variable](one) for one in close), (
                variable,
                time,
                value,
                close,
            )


def held(series, time):
    """The last value at a time."""
    index = bisect_right(series, time, key=lambda row: row[0]) - 1
    return series[index][1] if index >= 0 else None
