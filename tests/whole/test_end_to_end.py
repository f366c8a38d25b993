"""The whole program in another process, used over HTTP."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from support.program import PATIENCE_S, Home, Program, home_on, processes_that_name, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from pathlib import Path

    from support.database import DatabaseServer

ENV = "environment_1"
RECIPE = {
    "_id": "end_to_end",
    "format": "simple",
    "operations": [
        [0, "light_illuminance", 3_000],
        [20, "light_illuminance", 15_000],
        [1_000_000, "light_illuminance", 0],
    ],
}

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def home(database_server: DatabaseServer) -> AsyncIterator[Home]:
    async with home_on(database_server) as home:
        yield home


async def call(session: aiohttp.ClientSession, method: str, url: str, **options: Any) -> Any:
    async with session.request(method, url, **options) as response:
        text = await response.text()
        assert response.status < 300, f"{method} {url}: {response.status} {text}"
        return json.loads(text)


async def lines(session: aiohttp.ClientSession, program: Program, topic: str) -> AsyncIterator[Any]:
    async with session.get(f"{program.api}/topic_stream/{topic}") as response:
        assert response.status == 200
        async for line in response.content:
            yield json.loads(line)


async def until(stream: AsyncIterator[Any], wanted: Any) -> Any:
    """The first message of the stream that matches."""
    async with asyncio.timeout(PATIENCE_S):
        async for message in stream:
            if wanted(message):
                return message
    raise AssertionError("the stream ended")


async def export(session: aiohttp.ClientSession, program: Program, home: Home, category: str) -> list[Any]:
    """The rows of the specification's CSV request, through the front door."""
    url = (
        f"{program.address}/{home.points}/_design/svc/_list/csv/by_variable?group_level=4"
        f'&startkey=["{ENV}","{category}"]&endkey=["{ENV}","{category}",{{}}]'
    )
    async with session.get(url) as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/csv")
        assert "Content-Length" not in response.headers  # growd streams it in pages
        return list(csv.DictReader(io.StringIO(await response.text(), newline="")))


async def points(session: aiohttp.ClientSession, program: Program, home: Home) -> dict[str, Any]:
    answer = await call(session, "GET", f"{program.address}/{home.points}/_all_docs?include_docs=true")
    return {row["id"]: row["doc"] for row in answer["rows"] if not row["id"].startswith("_design")}


async def test_the_device_measures_and_follows_the_light(tmp_path: Path, home: Home):
    async with started(tmp_path, "--profile", "sim", "--speed", "20", *home.arguments) as program:
        async with aiohttp.ClientSession(headers=home.headers) as session:
            co2 = await call(session, "GET", f"{program.api}/topic_data/{ENV}/measured/air_carbon_dioxide")
            assert 300 < co2["result"] < 600
            light = f"{ENV}/measured/light_illuminance"
            dark = await until(lines(session, program, light), lambda m: m["quality"] == "ok")
            assert dark["value"] < 1_000

            await call(session, "POST", f"{program.api}/topic/{ENV}/desired/light_illuminance", json=[8_000])
            duty = await until(
                lines(session, program, f"{ENV}/light_channels"), lambda m: m["value"]["x"] > 0.3
            )
            assert 0.3 < duty["value"]["x"] < 0.6
            bright = await until(lines(session, program, light), lambda m: (m["value"] or 0) > 6_000)
            assert bright["quality"] == "ok"

        status, words = await program.end(signal.SIGINT)
        assert status == 0, words
        assert "outputs are safe, points are stored" in words
    assert processes_that_name(tmp_path) == []


@pytest.mark.long
async def test_a_kill_during_a_recipe_loses_and_repeats_nothing(tmp_path: Path, home: Home):
    options = ("--profile", "sim", "--speed", "20", *home.arguments)
    async with started(tmp_path, *options) as program, aiohttp.ClientSession(headers=home.headers) as session:
        await call(session, "PUT", f"{program.address}/{home.recipes}/end_to_end", json=RECIPE)
        answer = await call(
            session, "POST", f"{program.api}/service/{ENV}/start_recipe", json={"recipe_id": "end_to_end"}
        )
        assert answer["success"] is True
        set_points = lines(session, program, f"{ENV}/desired/light_illuminance")
        assert (await until(set_points, lambda m: m["value"] == 15_000))["node"] == f"{ENV}/recipe_runner"
        async with asyncio.timeout(PATIENCE_S):
            async for _ in lines(session, program, f"{ENV}/measured/light_illuminance"):
                before = await points(session, program, home)
                if len(before) >= 10:
                    break
        start = await call(session, "GET", f"{program.api}/param/{ENV}/current_recipe_start")
        await call(session, "POST", f"{program.api}/param/grower/note", json={"value": ["basil", 0]})
        await program.end(signal.SIGKILL)

    async with started(tmp_path, *options) as program, aiohttp.ClientSession(headers=home.headers) as session:
        assert await call(session, "GET", f"{program.api}/param/{ENV}/current_recipe_start") == start
        note = await call(session, "GET", f"{program.api}/param/grower/note")
        assert note == {"result": ["basil", 0]}  # acknowledged before the kill
        resumed = lines(session, program, f"{ENV}/desired/light_illuminance")
        await until(resumed, lambda m: m["value"] == 15_000)  # from the place before the kill
        stopped = await call(session, "POST", f"{program.api}/service/{ENV}/stop_recipe")
        assert stopped["success"] is True
        status, words = await program.end(signal.SIGTERM)
        assert status == 0, words

    async with started(tmp_path, *options) as program, aiohttp.ClientSession(headers=home.headers) as session:
        assert (await call(session, "GET", f"{program.api}/param/{ENV}/current_recipe"))["result"] == ""
        after = await points(session, program, home)
        assert {point_id: after[point_id] for point_id in before} == before
        assert_each_once(after.values())
        await assert_exported(session, program, home, after.values())


def assert_each_once(stored: Collection[dict[str, Any]]) -> None:
    """One start and one end of the recipe, and no variable twice at one time."""
    kinds = Counter(point["variable"] for point in stored)
    assert kinds["recipe_start"] == kinds["recipe_end"] == 1
    moments = Counter((p["variable"], p["is_desired"], p["timestamp"]) for p in stored)
    assert moments.most_common(1)[0][1] == 1


async def assert_exported(
    session: aiohttp.ClientSession, program: Program, home: Home, stored: Collection[dict[str, Any]]
) -> None:
    """The CSV has each stored point once, and nothing else."""
    rows = await export(session, program, home, "measured")
    assert {row["variable"] for row in rows} >= {"air_carbon_dioxide", "light_illuminance"}
    in_csv = Counter((row["variable"], float(row["timestamp"]), float(row["value"])) for row in rows)
    now = (await points(session, program, home)).values()
    assert measured(stored) <= in_csv.keys() <= measured(now)
    assert in_csv.most_common(1)[0][1] == 1
    desired = await export(session, program, home, "desired")
    assert [row["value"] for row in desired if row["variable"] == "recipe_start"] == ["end_to_end"]


def measured(stored: Collection[dict[str, Any]]) -> set[tuple[str, float, Any]]:
    return {(p["variable"], p["timestamp"], p["value"]) for p in stored if not p["is_desired"]}
