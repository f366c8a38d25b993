"""How fast `growd simulate` tries a recipe, and whether it does the same twice.

Simulated days in a second of CPU, without the start of the program: of the profiles `sim` and `climate`, by
day with all set points, and of a chamber with 30 sensors. Two processes with different hash seeds must write
the same points and the same summary.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from measuring import GROWD, Options, Row, limited, main

if TYPE_CHECKING:
    from collections.abc import Mapping

DAYS: Final = 0.02
"""Simulated days of a round, for each second that it may take."""

SHORT_DAYS: Final = 1e-4
LEAST: Final = 0.1  # days in a second: 30 days in 5 minutes
AIR: Final = {"light_illuminance": 9_000, "air_carbon_dioxide": 800}
CLIMATE: Final = AIR | {
    "air_temperature": 24,
    "air_humidity": 75,
    "water_potential_hydrogen": 5.8,
    "water_electrical_conductivity": 1.6,
    "water_level": 80,
    "water_circulation": 1,
}
SENSORS: Final = 30
SENSOR: Final = """
[[sensor]]
name = "{kind}_{bus}"
kind = "{kind}"
bus = {bus}
"""
LAMP: Final = """
[[light.channel]]
name = "white"
pin = 12
"""


@dataclass(frozen=True)
class Case:
    """A chamber, by its options, and the set points of its recipe."""

    name: str
    chamber: tuple[str, ...]
    set_points: Mapping[str, float]
    least: float | None = None


@dataclass(frozen=True)
class Tried:
    """What a run took and wrote."""

    days: float
    cpu_s: float
    digest: str


def measure(options: Options) -> list[Row]:
    days = DAYS * options.seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = (
            Case("sim", ("--profile", "sim"), AIR),
            Case("climate", ("--profile", "climate"), CLIMATE, LEAST),
            Case(f"{SENSORS} sensors", ("--config", str(_many_sensors(folder))), AIR),
        )
        rows = [_speed(case, days, folder, options.rounds) for case in cases]
        twice = {_tried(cases[1], days / 4, folder, seed).digest for seed in ("1", "2")}
    return [*rows, limited("climate, runs that differ from the first of 2", "runs", len(twice) - 1, 0)]


def _speed(case: Case, days: float, folder: Path, rounds: int) -> Row:
    """The fastest of all rounds: other programs only make them slower."""
    rates = []
    for _ in range(rounds):
        start, whole = (_tried(case, each, folder) for each in (SHORT_DAYS, days))
        rates.append((whole.days - start.days) / (whole.cpu_s - start.cpu_s))
    best = max(rates)
    target = "" if case.least is None else f"at least {case.least:g} days/s"
    return Row(case.name, "days/s", best, None, None, target, case.least is None or best >= case.least)


def _tried(case: Case, days: float, folder: Path, hash_seed: str = "0") -> Tried:
    recipe, points = folder / "recipe.json", folder / "points.csv"
    steps = [[0, variable, value] for variable, value in case.set_points.items()]
    last = [86_400 * days, "light_illuminance", 0]
    recipe.write_text(json.dumps({"format": "simple", "operations": [*steps, last]}))
    options = (*case.chamber, "--json", "--csv", str(points), "--replace")
    began = _cpu_s()
    done = subprocess.run(
        [GROWD, "simulate", recipe, *options],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    summary = json.loads(done.stdout.splitlines()[-1])["summary"]
    written = hashlib.sha256(points.read_bytes() + json.dumps(summary).encode())
    return Tried((summary["end"] - summary["start"]) / 86_400, _cpu_s() - began, written.hexdigest())


def _cpu_s() -> float:
    """Seconds of CPU of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _many_sensors(folder: Path) -> Path:
    """The configuration of a chamber with sensors for CO2 and light on each of its buses."""
    kinds = ("scd30", "bh1750")
    buses = range(1, SENSORS // len(kinds) + 1)
    sensors = chain.from_iterable((SENSOR.format(kind=kind, bus=bus) for kind in kinds) for bus in buses)
    file = folder / "many.toml"
    file.write_text("".join([*sensors, LAMP]))
    return file


if __name__ == "__main__":
    main(measure, rounds=2)
