"""Each benchmark gives its rows. These tests never look at the figures."""

import argparse
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import all as every
import export
import frontdoor
import growth
import hardware
import many_sensors
import measuring
import pytest
from closed_loop import CO2, Loop, Setting
from curves import Curve, Panel, draw
from hardware import BUSY_S, Case
from measuring import Options, Row, server

from control import Figures, growd, openings_row, step_rows, watched
from support.waiting import wait_until

pytestmark = pytest.mark.bench

BENCH = measuring.HERE
SCRIPTS = every.scripts()
FORM = {"case", "unit", "growd", "reference", "ratio", "target", "met", "spread"}
SHORT = Options(1, 0.05, argparse.Namespace())


def rows_of(name, seconds, path=os.environ["PATH"]):
    """The rows of one short round by case; `path` is where the benchmark finds programs."""
    done = subprocess.run(
        [sys.executable, BENCH / f"{name}.py", "--rounds", "1", "--seconds", str(seconds), "--json"],
        env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False, timeout=590,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert all(row.keys() == FORM and (row["met"] or row["target"]) for row in rows)
    return {row["case"]: row for row in rows}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_help_says_what_is_measured(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    first_words = " ".join(script.read_text().removeprefix('"""').split()[:3])
    assert first_words in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("bus", {"1 subscriber", "100 subscribers", "latency at 1 kHz, p99"}),
        pytest.param("export", set(), marks=pytest.mark.nightly),
        pytest.param("history", set(), marks=pytest.mark.nightly),
        ("idle", {"memory", "CPU an hour", "wake-ups", "food-computer: memory"}),
        pytest.param(
            "light_days", {"mean error of a day", "lamp outside of its hours"}, marks=pytest.mark.nightly
        ),
        pytest.param(
            "page",
            {"CPU of growd with a page (reference: nobody)", "CPU for each of 10 pages"},
            marks=[pytest.mark.nightly, pytest.mark.timeout(600)],
        ),
        pytest.param(
            "recipe_run",
            {"2 days whole", "set points at one moment", "all checks"},
            marks=pytest.mark.nightly,
        ),
        ("start", {"process start to outputs safe", "first answer", "CPU to the first answer"}),
        pytest.param("streams", set(), marks=pytest.mark.nightly),
    ],
)
def test_a_short_round_gives_rows(name, cases):
    rows = rows_of(name, 0.05)
    assert rows
    assert rows.keys() >= cases


def test_rows_that_need_a_missing_program_are_left_out(tmp_path):
    assert rows_of("api", 0.05, path=str(tmp_path)) == {}


@pytest.mark.parametrize("name", ["export", "frontdoor", "history"])
def test_an_interrupted_benchmark_removes_its_database(name, tmp_path):
    with frontdoor.database(tmp_path) as way:
        environment = os.environ | {"GROWD_TEST_COUCHDB": f"http://{way.host}:{way.port}"}
        running = subprocess.Popen(
            [sys.executable, BENCH / f"{name}.py", "--rounds", "1000"], env=environment
        )
        try:
            end = time.monotonic() + 60
            while not databases_of_benchmarks(way) and time.monotonic() < end:
                time.sleep(0.01)
            assert databases_of_benchmarks(way)
            running.terminate()
            assert running.wait(60) == 128 + signal.SIGTERM
        finally:
            running.kill()
            running.wait()
        assert databases_of_benchmarks(way) == []


def databases_of_benchmarks(way):
    return [name for name in export.ask(way, "GET", "/_all_dbs") if name.startswith("growd_bench_")]


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_wrk_posts_its_body_and_reports_a_refusal():
    with server("bare") as bare:
        answered = measuring.wrk(bare.url("/"), 0.1, connections=1, script=measuring.post('{"value": N}'))
        assert answered.number > 0
        with pytest.raises(RuntimeError, match="Non-2xx"):
            measuring.wrk(bare.url("/nothing"), 0.1, connections=1)


# --- control


@pytest.mark.nightly
def test_control_compares_each_step_with_the_predecessor():
    rows = rows_of("control", 20)
    for step in ("420 to 1000 ppm", "1000 to 1500 ppm", "1500 to 800 ppm"):
        assert rows[f"{step}: overshoot"]["reference"] is not None
        assert rows[f"{step}: overshoot"]["target"] == "at most 5 % of the step"
        assert rows[f"{step}: openings of the valve"]["target"].startswith("at most 0.5 of the reference")


def figures(**others):
    usual = {
        "overshoot": 0.0, "measured_overshoot": 0.0, "rise_s": 20.0, "error": 1.0, "openings_per_h": 10.0,
        "litres": 0.01, "litres_per_h": 0.01, "limit": 60.0, "reached": True,
    }  # fmt: skip
    return Figures(**usual | others)


async def test_a_step_that_is_not_reached_misses_its_target():
    loop = Loop(Setting())
    async with loop.running(growd(loop)):
        await loop.clock.advance(10)
        assert [(await watched(loop, 1000.0, seconds)).reached for seconds in (20, 300)] == [False, True]
    for reached in (False, True):
        row = step_rows("step", figures(reached=reached), figures())[0]
        assert (row.case, row.met) == ("step: overshoot", reached)


def test_openings_are_compared_with_the_predecessor_and_with_the_co2_used():
    assert openings_row("lamps on", figures(openings_per_h=5.0), figures()).met
    assert not openings_row("lamps on", figures(openings_per_h=5.1), figures()).met
    assert openings_row("lamps on", figures(openings_per_h=30.0, litres_per_h=0.1), figures()).met
    assert not openings_row("lamps on", figures(openings_per_h=31.0, litres_per_h=0.1), figures()).met


async def test_a_seed_repeats_the_same_hour():
    courses = []
    for _ in range(2):
        loop = Loop(Setting(seed=7))
        async with loop.running(growd(loop)):
            loop.want(CO2, 1000.0)
            await loop.clock.advance(300)
            courses.append((loop.ppm, loop.measured, loop.openings, loop.litres))
    assert courses[0] == courses[1]
    assert courses[0][2] > 0


# --- growth and hardware


@pytest.fixture(scope="module")
def rest():
    with server("many_sensors", "--sensors", 0) as process:
        yield process


@pytest.mark.nightly
def test_hardware_compares_the_loop_with_a_daemon_at_rest(rest):
    case = Case("1 of 4 busy buses hangs", ("--fault", "hang"), failing=4)
    p999, worst, failed, _ = hardware.delay_rows(case, rest, SHORT)
    assert p999.reference is not None
    assert p999.growd <= worst.growd
    assert (failed.growd, failed.target, failed.met) == (4, "at most 4 sensors", True)
    row = hardware.sample_row("tsl2591", SHORT)
    assert row.case == "CPU for each reading, tsl2591"
    assert row.reference is not None


@pytest.mark.nightly
def test_hardware_compares_many_sensors_with_the_fewest(rest):
    rows = hardware.growth_rows(((2, 1), (4, 2)), rest, SHORT)
    assert [row.case for row in rows] == [
        f"{name}: {what}"
        for name in ("2 sensors on 1 bus", "4 sensors on 2 buses")
        for what in ("CPU", "CPU for each reading", "loop delay, p99.9", "loop delay, worst")
    ]
    assert [row.target for row in rows[4:6]] == ["at most 2 times it", "at most 1.25 times it"]
    assert [row.reference for row in rows[4:6]] == [row.growd for row in rows[:2]]


@pytest.mark.parametrize("fault", many_sensors.FAULTS)
def test_sensors_on_a_faulty_bus_fail_and_the_others_are_read(fault):
    load = ("--sensors", 2, "--buses", 2, "--kinds", "bh1750", "--interval", BUSY_S)
    with server("many_sensors", *load, "--fault", fault) as growd:
        before = growth.readings_of(growd)
        wait_until(lambda: growth.readings_of(growd) >= before + 3)
        wait_until(lambda: growd.call("bench/sensors")["failed"] == 1)


@pytest.mark.parametrize("bare", [(), ("--bare",)])
def test_sensors_of_each_kind_are_read(bare):
    load = ("--sensors", 3, "--kinds", "bh1750", "mhz19", "tsl2591", "--interval", BUSY_S)
    with server("many_sensors", *load, *bare) as process:
        before = growth.readings_of(process)
        wait_until(lambda: growth.readings_of(process) >= before + 6)
        wait_until(lambda: process.call("bench/sensors")["failed"] == 0)  # a late reading may fail once


def test_growth_compares_the_most_with_one():
    row = growth.Costs("topics", "GET one", "µs", {1: 40.0, 10: 41.0, 100: 60.0}, growth.LEVEL).row()
    assert (row.growd, row.reference, row.ratio, row.met) == (60.0, 40.0, 1.5, False)
    assert row.target == "at most 1.25 times it"


def test_the_figure_has_each_curve(tmp_path):
    panels = [
        Panel("Memory", "of each", "RSS, MB", [Curve("topics", {1: 40, 1000: 44}), Curve("streams", {1: 41})])
    ]
    draw(tmp_path / "growth.svg", panels, "a small machine")
    svg = (tmp_path / "growth.svg").read_text()
    texts = {element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}  # noqa: S314  ours
    assert {"Memory", "of each", "RSS, MB", "topics", "streams", "1,000", "a small machine"} <= texts


# --- The harness


def test_pairs_are_measured_alternately_and_compared_per_round():
    order = []
    ours, others = iter([1.0, 10.0, 3.0]), iter([2.0, 5.0, 6.0])

    def mine():
        order.append("ours")
        return next(ours)

    def reference():
        order.append("reference")
        return next(others)

    assert measuring.pairs(mine, reference, 3) == (3.0, 5.0, 0.5, 1.5)  # ratios of 0.5, 2 and 0.5
    assert order == ["ours", "reference"] * 3


def test_a_ratio_is_compared_with_its_target_and_a_value_with_its_limit():
    for ratio, met in ((0.5, True), (0.49, False)):
        row = measuring.compared("case", "requests/s", (1.0, 2.0, ratio), at_least=0.5)
        assert row == Row("case", "requests/s", 1.0, 2.0, ratio, "at least 0.5 of the reference", met)
    for value, met in ((60.0, True), (60.1, False)):
        row = measuring.limited("memory", "MB", value, 60, 30.0)
        assert row == Row("memory", "MB", value, 30.0, value / 30.0, "at most 60 MB", met)


def test_a_table_has_a_line_for_each_row():
    rows = [
        Row("fast", "requests/s", 12_345.6, 6_000.0, 2.0576, "at least 1 of the reference", met=True),
        Row("large", "MB", 61.234, None, None, "at most 60 MB", met=False),
    ]
    assert measuring.table(rows).splitlines()[2:] == [
        "| fast | 12,346 requests/s | 6,000 requests/s | 2.06 | at least 1 of the reference | yes |",
        "| large | 61.2 MB | - | - | at most 60 MB | no |",
    ]
