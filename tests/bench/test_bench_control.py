"""The benchmark of control says what it promises to say. What it measures is never looked at here."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys

import measuring
import pytest
from closed_loop import CO2, ENVIRONMENT, Loop, Setting

from control import (
    Figures,
    Predecessor,
    accuracy_ppm,
    growd,
    interlocked,
    measure,
    openings_row,
    step_rows,
    watched,
)

pytestmark = pytest.mark.bench

TINY = ("--rounds", "1", "--seconds", "20")
STEPS = ("420 to 1000 ppm", "1000 to 1500 ppm", "1500 to 800 ppm")
FIGURES = (
    "overshoot",
    "overshoot, measured",
    "rise to 90 %",
    "largest error",
    "openings of the valve",
    "CO2 used",
)


@pytest.mark.timeout(120)
def test_each_step_has_its_figures_beside_the_predecessors():
    done = subprocess.run(
        [sys.executable, measuring.HERE / "control.py", *TINY, "--json"],
        capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads(done.stdout)["rows"]}
    for step in STEPS:
        assert all(rows[f"{step}: {figure}"]["reference"] is not None for figure in FIGURES)
        assert rows[f"{step}: overshoot"]["target"] == "at most 5 % of the step"
        assert rows[f"{step}: openings of the valve"]["target"].startswith("at most 0.5 of the reference")
    assert rows["420 to 1000 ppm: largest error"]["target"] == "at most 60 ppm"
    has_package = importlib.util.find_spec("simple_pid") is not None
    assert any("simple-pid" in case for case in rows) == has_package
    assert ("simple-pid is not installed" in done.stderr) != has_package


def test_a_figure_without_matplotlib_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    options = measuring.Options(1, 20.0, argparse.Namespace(figure=tmp_path / "figure.svg"))
    with pytest.raises(SystemExit, match="matplotlib, which draws the figure, is not installed"):
        measure(options)


def test_the_accuracy_is_the_sensors():
    assert accuracy_ppm(1000.0) == 60.0


def figures(**others):
    usual = {
        "overshoot": 0.0,
        "measured_overshoot": 0.0,
        "rise_s": 20.0,
        "error": 1.0,
        "openings_per_h": 10.0,
        "litres": 0.01,
        "litres_per_h": 0.01,
        "limit": 60.0,
        "reached": True,
    }
    return Figures(**usual | others)


@pytest.mark.parametrize("reached", [True, False])
def test_a_step_that_is_never_reached_does_not_meet_the_target_for_its_overshoot(reached):
    row = step_rows("step", figures(reached=reached), figures())[0]
    assert (row.case, row.met) == ("step: overshoot", reached)


async def test_whether_a_step_was_reached_is_told():
    loop = Loop(Setting())
    async with loop.running(growd(loop)):
        await loop.clock.advance(10)
        told = [await watched(loop, 1000.0, seconds) for seconds in (20, 300)]
    assert [one.reached for one in told] == [False, True]


def test_openings_are_judged_by_the_predecessors_and_by_the_co2_that_went_in():
    assert openings_row("lamps on", figures(openings_per_h=5.0), figures()).met
    assert not openings_row("lamps on", figures(openings_per_h=5.1), figures()).met
    assert openings_row("lamps on", figures(openings_per_h=30.0, litres_per_h=0.1), figures()).met
    assert not openings_row("lamps on", figures(openings_per_h=31.0, litres_per_h=0.1), figures()).met


async def test_an_interlock_holds_the_valve_without_a_word_and_lets_go_of_it():
    loop = Loop(Setting(fan=False))
    async with loop.running(growd(loop)):
        loop.valve_hold.set(True)
        loop.want(CO2, 1000.0)
        await loop.clock.advance(60)
        assert not loop.openings
        (told,) = await interlocked(loop, 300.0)
    assert loop.openings
    assert told.reached


async def test_the_same_seed_gives_the_same_hour():
    courses = []
    for _ in range(2):
        loop = Loop(Setting(seed=7))
        async with loop.running([Predecessor(loop, (1.0, 0.0, 1.0))]):
            loop.want(CO2, 1000.0)
            await loop.clock.advance(300)
            courses.append((loop.ppm, loop.measured, loop.openings, loop.litres))
    assert courses[0] == courses[1]
    assert courses[0][2] > 0


async def test_the_predecessors_sum_winds_up_to_its_limit():
    loop = Loop(Setting(fan=False))
    controller = Predecessor(loop, (0.25, 0.25, 0.75))
    async with loop.running([controller]):
        loop.want(CO2, 40_000.0)
        await loop.clock.advance(60)
        assert controller._sum == 1000.0
        loop.want(CO2, 420.0)
        await loop.clock.advance(2)
        assert loop.bus.topics.get(f"{ENVIRONMENT}/commanded/air_carbon_dioxide_valve_on").last.value == 0.0
