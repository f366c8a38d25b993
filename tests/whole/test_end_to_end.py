"""The whole program in another process, used over HTTP."""

import csv
import functools
import io
import signal
from collections import Counter

import aiohttp
import pytest

from support.program import home_on, processes_that_name, started
from support.waiting import until_found

ENV, SHELF = "environment_1", "shelf_2"
TWO_CHAMBERS = f"""
environment.id = "{ENV}"
light.enabled = true

[[chamber.{SHELF}.sensor]]
name = "scd30_1"
kind = "scd30"
bus = 3

[[chamber.{SHELF}.sensor]]
name = "bh1750_1"
kind = "bh1750"
address = 0x5C
interval_s = 1.0

[[chamber.{SHELF}.light.channel]]
name = "white"
pin = 20
"""
RECIPE = {
    "_id": "end_to_end",
    "format": "simple",
    "operations": [
        [0, "light_illuminance", 3_000],
        [20, "light_illuminance", 15_000],
        [1_000_000, "light_illuminance", 0],
    ],
}
BY_HAND = {"desired/air_temperature": 21.5, "measured/water_potential_hydrogen": 6.1, "notes": "watered"}

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def home(database_server):
    async with home_on(database_server) as home:
        yield home


async def export(program, home, category):
    """The rows of the specification's CSV request, through the front door."""
    url = (
        f"{program.address}/{home.points}/_design/svc/_list/csv/by_variable?group_level=4"
        f'&startkey=["{ENV}","{category}"]&endkey=["{ENV}","{category}",{{}}]'
    )
    async with aiohttp.ClientSession(headers=home.headers) as session, session.get(url) as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/csv")
        assert "Content-Length" not in response.headers  # growd streams it in pages
        return list(csv.DictReader(io.StringIO(await response.text(), newline="")))


async def test_the_device_measures_and_follows_the_light(tmp_path, home):
    async with started(tmp_path, "--profile", "sim", "--speed", "20", *home.arguments) as program:
        co2 = await program.ask("GET", f"topic_data/{ENV}/measured/air_carbon_dioxide")
        assert 300 < co2["result"] < 600
        light = f"{ENV}/measured/light_illuminance"
        assert (await program.heard(light, lambda m: m["quality"] == "ok"))["value"] < 1_000
        await program.ask("POST", f"topic/{ENV}/desired/light_illuminance", [8_000])
        duty = await program.heard(f"{ENV}/light_channels", lambda m: m["value"]["x"] > 0.3)
        assert 0.3 < duty["value"]["x"] < 0.6
        bright = await program.heard(light, lambda m: (m["value"] or 0) > 6_000)
        assert bright["quality"] == "ok"
        status, words = await program.end(signal.SIGINT)
        assert status == 0, words
        assert "outputs are safe, points are stored" in words
    assert processes_that_name(tmp_path) == []


@pytest.mark.long
async def test_a_kill_during_the_recipes_of_two_chambers_loses_and_repeats_nothing(tmp_path, home):
    config = tmp_path / "growd.toml"
    config.write_text(TWO_CHAMBERS)
    options = ("--config", str(config), "--speed", "20", *home.arguments)
    start = functools.partial(started, tmp_path / "data", *options, headers=home.headers)
    set_points = f"{ENV}/desired/light_illuminance"
    async with start() as program:
        assert f"chambers   {ENV}, {SHELF}" in program.printed
        await program.ask("PUT", f"/{home.recipes}/end_to_end", RECIPE)
        for chamber in (ENV, f"environments/{SHELF}"):  # the name that the predecessor had for it
            answer = await program.ask("POST", f"service/{chamber}/start_recipe", {"recipe_id": "end_to_end"})
            assert answer["success"] is True
        heard = await program.heard(set_points, lambda m: m["value"] == 15_000)
        assert heard["node"] == f"{ENV}/recipe_runner"
        old_name = f"environments/{SHELF}/light_illuminance/measured"
        await program.heard(old_name, lambda m: (m["value"] or 0) > 9_000)
        devices = (await program.ask("GET", "node/status"))["status"]["devices"]
        names = [f"{chamber}/{name}" for chamber in (ENV, SHELF) for name in ("bh1750_1", "light", "scd30_1")]
        assert sorted(each["name"] for each in devices) == names
        before = await until_found(lambda: ten_points(program, home))
        begun = await program.ask("GET", f"param/{ENV}/current_recipe_start")
        await program.ask("POST", "param/grower/note", {"value": ["basil", 0]})
        for topic, value in BY_HAND.items():
            await program.ask("POST", f"topic/{ENV}/{topic}", [value])
        await program.end(signal.SIGKILL)

    async with start() as program:
        assert await program.ask("GET", f"param/{ENV}/current_recipe_start") == begun
        note = await program.ask("GET", "param/grower/note")
        assert note == {"result": ["basil", 0]}  # acknowledged before the kill
        (held,) = await until_found(lambda: by_hand(program))
        assert (held["variable"], held["value"], held["by"]) == ("air_temperature", 21.5, "127.0.0.1")
        await program.heard(set_points, lambda m: m["value"] == 15_000)  # from the place before the kill
        assert (await program.ask("POST", f"service/{ENV}/stop_recipe"))["success"] is True
        status, words = await program.end(signal.SIGTERM)
        assert status == 0, words

    async with start() as program:
        running = {name: await program.ask("GET", f"param/{name}/current_recipe") for name in (ENV, SHELF)}
        assert running == {ENV: {"result": ""}, SHELF: {"result": "end_to_end"}}
        after = await program.documents(home.points)
        assert {point_id: after[point_id] for point_id in before} == before
        assert_each_once(after.values())
        events = (await program.documents(home.events)).values()
        values = [each.get("value") for each in (*after.values(), *events)]
        assert all(value in values for value in BY_HAND.values())
        starts = [each for each in events if each.get("variable") == "restart"]
        assert all(each["value"].endswith(", on simulated hardware") for each in starts)
        assert min(Counter(each["environment"] for each in starts)[name] for name in (ENV, SHELF)) >= 2
        await assert_exported(program, home, after.values())


async def ten_points(program, home):
    """The stored points, once there are ten."""
    found = await program.documents(home.points)
    return found if len(found) >= 10 else {}


def assert_each_once(stored):
    """One start and one end of a recipe, and no variable twice at one time."""
    kinds = Counter((point["environment"], point["variable"]) for point in stored)
    assert kinds[ENV, "recipe_start"] == kinds[ENV, "recipe_end"] == kinds[SHELF, "recipe_start"] == 1
    moments = Counter((p["environment"], p["variable"], p["is_desired"], p["timestamp"]) for p in stored)
    assert moments.most_common(1)[0][1] == 1


async def assert_exported(program, home, stored):
    """The CSV has each stored point once, and nothing else."""
    rows = await export(program, home, "measured")
    assert {row["variable"] for row in rows} >= {"air_carbon_dioxide", "light_illuminance"}
    in_csv = Counter((row["variable"], float(row["timestamp"]), float(row["value"])) for row in rows)
    now = (await program.documents(home.points)).values()
    assert measured(stored) <= in_csv.keys() <= measured(now)
    assert in_csv.most_common(1)[0][1] == 1
    desired = await export(program, home, "desired")
    assert [row["value"] for row in desired if row["variable"] == "recipe_start"] == ["end_to_end"]


def measured(stored):
    of_one = [p for p in stored if p["environment"] == ENV and not p["is_desired"]]
    return {(p["variable"], p["timestamp"], p["value"]) for p in of_one}


@pytest.mark.long
async def test_a_kill_of_a_whole_climate_loses_no_note_and_damages_no_log(tmp_path, home):
    start = functools.partial(
        started, tmp_path, "--profile", "climate", *home.arguments, headers=home.headers
    )
    async with start() as program:
        await program.heard(f"{ENV}/measured/air_temperature", lambda m: m["quality"] == "ok")
        await program.ask("POST", f"topic/{ENV}/notes", ["water changed"])
        await program.end(signal.SIGKILL)
    async with start() as program:
        assert (await program.ask("GET", "node/status"))["status"]["store"]["notices"] == []
        await until_found(lambda: noted(program, home, "water changed"))
        await program.end(signal.SIGTERM)


async def by_hand(program):
    return (await program.ask("GET", "node/status"))["status"]["set_points"]


async def noted(program, home, text):
    return [each for each in (await program.documents(home.events)).values() if each.get("value") == text]
