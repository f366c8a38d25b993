"""`growd simulate`: what it prints and writes, and that it is repeatable."""

import asyncio
import csv
import json
import os
import shutil
import signal
from datetime import datetime
from itertools import pairwise

import msgspec
import pytest

from growd_simulation.recipes import simulated_run
from growd_simulation.recipes.summary import Summary
from support.program import GROWD
from support.waiting import PATIENCE_S

LASTS_S = 1_200.0
BEGAN = 1_767_193_200.0  # 2026-01-01 00:00 in Tokyo
FAULT = "absent:scd30@5min+1min"


def lines_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def summary_of(done):
    return msgspec.convert(lines_of(done)[-1]["summary"], Summary)


@pytest.mark.long
def test_a_run_ends_with_its_summary(tried):
    done = tried("--json", "--fault", FAULT)
    assert done.exit_code == 0, done.output
    told = summary_of(done)
    assert (told.recipe, told.environment, told.end_reason) == ("short", "environment_1", "finished")
    assert (told.start, told.end) == (BEGAN, BEGAN + LASTS_S)
    kept = {one.variable: one for one in told.set_points}
    assert kept.keys() == {"air_temperature", "light_illuminance", "water_potential_hydrogen"}
    assert kept["light_illuminance"].within > 0.9
    assert kept["light_illuminance"].lowest < 3_100
    assert kept["light_illuminance"].highest > 8_500
    assert kept["air_temperature"].longest_outside_s > 0
    assert kept["air_temperature"].unknown_s == pytest.approx(60, abs=30)
    assert kept["air_temperature"].within < 1
    assert told.light is not None
    assert told.light.days == 1
    (acid,) = told.doses
    assert acid.number > 0
    assert acid.ml == pytest.approx(3, abs=3)
    outputs = {one.output: one for one in told.outputs}
    assert outputs["acid"].life_used == outputs["acid"].starts / 100_000
    lamp_kwh = 30 * outputs["light white"].on_s / 3.6e6
    assert told.energy_kwh <= lamp_kwh + 200 * outputs["heater"].on_s / 3.6e6 + 1e-4
    assert [one.name for one in told.faults] == ["air"]
    assert told.faults[0].times == 1
    assert 30 < told.faults[0].lasted_s < 180
    assert "air_temperature_unknown" in [one.name for one in told.interlocks]
    assert [(one.kind, one.device) for one in told.injected] == [("absent", "scd30")]


def test_days_end_a_run_before_its_recipe_and_progress_is_a_line_of_json_each(tried):
    done = tried("--json", "--days", 0.001)
    *steps, _ = lines_of(done)
    assert [*steps[0]] == ["done", "speed"]
    parts = [step["done"] for step in steps]
    assert parts == sorted(parts)
    assert parts[-1] == 1.0
    assert all(step["speed"] > 0 for step in steps)
    told = summary_of(done)
    assert told.end_reason == "stopped"
    assert told.end - told.start == pytest.approx(86.4, abs=1.5)


def test_people_get_tables_and_progress_in_tenths(tried):
    done = tried("--days", 0.001)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].endswith("stopped before its end")
    heads = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert {"set point", "sum", "pump", "output"} <= {*heads}
    assert "interlock" not in heads
    assert done.stderr.count("times real time") == 10


def test_the_report_is_that_of_a_run_and_the_points_are_written_by_the_storage_rule(tried, folder):
    page, table = folder / "report.html", folder / "points.csv"
    done = tried("--days", 0.005, "-o", page, "--lang", "de", "--csv", table)
    assert done.exit_code == 0, done.output
    content = page.read_text()
    assert content.count("<svg") >= 3
    assert '<html lang="de"' in content
    assert "2026-01-01" in content or "01.01.2026" in content or "1. Januar 2026" in content
    with table.open(newline="") as stream:
        rows = [*csv.DictReader(stream)]
    assert [*rows[0]] == ["time", "environment", "category", "variable", "value", "unit", "is_manual"]
    assert {row["category"] for row in rows} >= {"measured", "desired", "commanded"}
    warmth = [row for row in rows if (row["category"], row["variable"]) == ("measured", "air_temperature")]
    times = [datetime.fromisoformat(row["time"]).timestamp() for row in warmth]
    assert len(times) > 10
    assert min(later - before for before, later in pairwise(times)) >= 10
    assert min(row["time"] for row in rows) == "2025-12-31T15:00:00.000Z"
    assert [row["value"] for row in rows if row["variable"] == "recipe_start"] == ["short"]


@pytest.mark.long
async def test_the_same_seed_gives_the_same_bytes_in_each_process_and_another_one_another_run(folder):
    runs = (("1", "0"), ("2", "0"), ("1", "7"))
    first, again, other = await asyncio.gather(*(written(folder, *each) for each in runs))
    assert first == again != other


async def written(folder, hash_seed, seed):
    """What a process writes: the summary, the points and the report."""
    names = [folder / f"{hash_seed}-{seed}.csv", folder / f"{hash_seed}-{seed}.html"]
    options = ("--days", 0.008, "--seed", seed, "--fault", FAULT, "--csv", names[0], "-o", names[1])
    process = await begun(folder, *options, PYTHONHASHSEED=hash_seed)
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0
    files = [await asyncio.to_thread(name.read_bytes) for name in names]
    return [output.splitlines()[-1], *files]


async def begun(folder, *arguments, **environment):
    """A process that simulates the chamber of the folder."""
    command = ("simulate", folder / "short.json", "--config", folder / "chamber.toml", "--json")
    return await asyncio.create_subprocess_exec(
        GROWD,
        *map(str, (*command, *arguments)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )


async def test_ctrl_c_ends_a_run_with_the_summary_so_far(folder):
    process = await begun(folder)
    assert process.stdout is not None
    first = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE_S))
    process.send_signal(signal.SIGINT)
    rest = await asyncio.wait_for(process.stdout.read(), PATIENCE_S)
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    told = msgspec.convert(json.loads(rest.splitlines()[-1])["summary"], Summary)
    assert first["done"] * LASTS_S - 1 <= told.end - told.start < LASTS_S


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ("scd30@2d", "KIND"),
        ("broken:scd30@2d", "absent"),
        ("absent:scd41@2d", "scd30"),
        ("absent:mhz19@2d", "no mhz19; there is"),
        ("absent:scd30@later", "2d6h"),
        ("absent:scd30@1h+0s", "for"),
        ("drift:scd30@1h", "amount"),
        ("drift=much:scd30@1h", "much"),
    ],
)
def test_a_bad_fault_is_refused_in_one_sentence_with_what_is_possible(tried, fault, word):
    done = tried("--fault", fault)
    assert done.exit_code == 2
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("Error")]
    assert word in sentence


def test_faults_name_devices_with_colons_and_amounts_and_one_after_the_end_is_said(tried):
    faults = ("drift=50:scd30@1d2h30min", "absent:i2c-1:0x61@90s", "stuck:i2c-1@0.5h+10min")
    done = tried("--days", 0.0001, *(word for fault in faults for word in ("--fault", fault)))
    assert done.exit_code == 0, done.output
    assert done.stdout.count(": after the end") == 3


def test_recipes_that_ship_are_found_by_name(tried):
    shipped = tried("--days", 0.0001, recipe="demo_day")
    assert shipped.exit_code == 0
    assert "air_carbon_dioxide" in shipped.stderr  # a warning: this chamber has no valve
    unknown = tried(recipe="demo_dya")
    assert unknown.exit_code == 1
    assert "demo_day" in unknown.stderr


@pytest.mark.parametrize(
    ("content", "place"),
    [("[", "JSON"), ('{"format": "simple", "operations": [[-1, "warmth", 2]]}', "/operations/0/0")],
)
def test_a_recipe_that_cannot_run_is_refused(tried, folder, content, place):
    (folder / "wrong.json").write_text(content)
    done = tried(recipe=str(folder / "wrong.json"))
    assert done.exit_code == 1
    assert place in done.stderr
    assert not done.stdout


def test_wrong_options_and_a_wrong_configuration_are_refused(tried, folder):
    for arguments in (("--days", "0"), ("--days", "5000"), ("--lang", "xx")):
        assert tried(*arguments).exit_code == 2
    done = tried("--environment", "attic")
    assert (done.exit_code, "environment_1" in done.stderr) == (1, True)
    with (folder / "chamber.toml").open("a") as file:
        file.write("\n[interlock]\nvalve = 3\n")
    done = tried()
    assert (done.exit_code, "chamber.toml" in done.stderr) == (1, True)


def test_files_that_cannot_be_written_are_found_before_the_run(tried, folder):
    (folder / "there.html").touch()
    for arguments in (("-o", folder / "there.html"), ("--csv", folder / "none" / "points.csv")):
        done = tried(*arguments)
        assert done.exit_code == 1
        assert "times real time" not in done.stderr
    assert tried("--days", 0.0001, "-o", folder / "there.html", "--replace").exit_code == 0


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_a_run_ends_with_a_film_of_the_plants(tried, folder, monkeypatch):
    monkeypatch.setattr(simulated_run, "_FILMED_S", 200.0)
    film = folder / "film.mp4"
    done = tried("--film", film)
    assert done.exit_code == 0, done.output
    assert film.read_bytes()[4:8] == b"ftyp"
    assert film.stat().st_size > 2_000
