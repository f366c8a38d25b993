"""`growd db history`: as a table, CSV and JSON, and its errors."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from growd_cli.main import main
from support.daemon import serving
from support.history import stored_past
from support.rollups import measured

T = 1_790_000_000


@pytest.fixture
async def daemon(database_server):
    async with stored_past(database_server) as past:
        await past.store(
            *[measured("air_temperature", 20 + n / 4, T + 10 * n) for n in range(4)],
            measured("light_illuminance", 8_000, T, is_desired=True),
            measured("light_illuminance", None, T + 1, is_desired=True),
        )
        async with serving(history=past.history) as daemon:
            yield daemon


async def run(daemon, *words):
    command = ["db", "history", *words, "--url", daemon.origin]
    return await asyncio.to_thread(CliRunner().invoke, main, command)


RANGE = ("--start", str(T), "--end", str(T + 60), "--environment", "environment_1")


async def test_a_table(daemon, said):
    done = await run(daemon, *RANGE, "--points", "4")
    assert done.exit_code == 0, done.output
    said(done.output.splitlines())


async def test_csv_of_one_variable(daemon):
    done = await run(daemon, "light_illuminance", "--csv", *RANGE, "--points", "4")
    assert done.output.splitlines() == [
        "time,category,variable,unit,min,mean,max,last,count",
        "2026-09-21T14:13:00Z,desired,light_illuminance,lux,8000.0,8000.0,8000.0,,1",
    ]


async def test_json_is_the_answer_of_the_api_and_a_range_may_be_empty(daemon):
    done = await run(daemon, "--json", *RANGE)
    query = f"/history/environment_1?start={T}&end={T + 60}&points=48"
    assert json.loads(done.output) == (await daemon.ask("GET", query)).json
    done = await run(daemon, "--start", "2000-01-01T00:00Z", "--end", "978307200", *RANGE[4:])
    assert done.output == "there are no points in this range\n"


async def test_errors(daemon):
    for words, status, sentence in (
        (("temperature", *RANGE), 1, 'must be a variable such as air_temperature, not "temperature"'),
        (("--start", "yesterday", *RANGE[4:]), 2, "yesterday is not a time"),
        (("--environment", "nowhere"), 1, 'there is no environment named "nowhere"'),
        (("--points", "1"), 2, "--points"),
        (("--csv", "--json"), 2, "--csv can't be used with --json"),
    ):
        done = await run(daemon, *words)
        assert (done.exit_code, sentence in done.output) == (status, True), done.output
