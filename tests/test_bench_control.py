"""The benchmark of CO2 says what it promises to say. What it measures is never looked at here."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import measuring
import pytest
from closed_loop import CO2, ENVIRONMENT, Loop, Setting

from control import Predecessor, accuracy_ppm

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
        assert rows[f"{step}: overshoot"]["target"] == "at most 3 % of the step"
        assert rows[f"{step}: openings of the valve"]["target"] == "at most 0.5 of the reference"
    assert rows["420 to 1000 ppm: largest error"]["target"] == "at most 60 ppm"
    has_package = importlib.util.find_spec("simple_pid") is not None
    assert any("simple-pid" in case for case in rows) == has_package
    assert ("simple-pid is not installed" in done.stderr) != has_package


@pytest.mark.parametrize("figure", ["figure.svg"])
@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is there")
def test_a_figure_without_matplotlib_is_refused_before_the_work(tmp_path, figure):
    done = subprocess.run(
        [sys.executable, measuring.HERE / "control.py", "--figure", tmp_path / figure],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "matplotlib" in done.stderr


def test_the_accuracy_is_the_sensors():
    assert accuracy_ppm(1000.0) == 60.0


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
