"""A whole recipe of 41 days, and the cost of a recipe of the largest size.

The real recipe runner with its journal on disk runs on a clock that jumps two minutes at a time; seconds
are real. For a `simple` recipe with 100 000 operations: the set points at one moment, compared with a scan
of all operations, and all checks, compared with parsing it as JSON.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import HERE, Options, Row, compared, limited, main, pairs

from growd.recipes.interpreter import check, interpret

if TYPE_CHECKING:
    from collections.abc import Callable

LIFE = HERE.parent / "tests" / "support" / "killed_run.py"
DAYS, DAY_S = 41, 86_400
MOST_S = 20.0
OPERATIONS = 100_000
MOMENTS = 20
VARIABLES = ["air_carbon_dioxide", "air_temperature", "light_illuminance"]


def measure(options: Options) -> list[Row]:
    days = max(1, min(DAYS, int(DAYS * options.seconds)))  # a shorter round is for a look at the form
    large = _large()
    plan, _ = interpret(large)
    moments = [random.Random(1).uniform(0, DAYS * DAY_S) for _ in range(MOMENTS)]
    text = json.dumps(large)
    in_plan = pairs(
        lambda: _microseconds(lambda: [plan.set_points(moment) for moment in moments]) / MOMENTS,
        lambda: _microseconds(lambda: [_look_at_all(large, moment) for moment in moments]) / MOMENTS,
        options.rounds,
    )
    checked = pairs(
        lambda: _microseconds(lambda: check(large)) / 1000,
        lambda: _microseconds(lambda: json.loads(text)) / 1000,
        options.rounds,
    )
    return [
        limited(f"{days} days whole", "s", _whole(days), MOST_S, None),
        compared("set points at one moment", "us", in_plan),
        compared("all checks", "ms", checked),
    ]


def _whole(days: int) -> float:
    """Real seconds that the recipe takes from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "time").touch()
        job = {"folder": folder, "recipe": _weeks(days), "variables": VARIABLES}
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, str(LIFE)], stdin=pipe, stdout=pipe, text=True) as life:
            assert life.stdin is not None  # noqa: S101  it is a pipe
            assert life.stdout is not None  # noqa: S101  likewise
            began = time.monotonic()
            life.stdin.write(json.dumps(job) + "\n")
            life.stdin.flush()
            life.stdout.readline()  # its process
            status = life.stdout.readline().strip()
            took = time.monotonic() - began
            life.stdin.close()
    if status != "0":
        raise SystemExit(f"the recipe did not come to its end: status {status}")
    return took


def _weeks(days: int) -> dict[str, Any]:
    light = [
        {"at": "06:00", "value": 0, "to_next": "sine"},
        {"at": "08:00", "value": 12_000},
        {"at": "21:00", "value": 12_000, "to_next": "ramp"},
        {"at": "22:00", "value": 0},
    ]
    air = [{"at": "07:00", "value": 1_000}, {"at": "21:30", "value": 400}]
    warmth = [{"at": 0, "value": 24, "to_next": "ramp"}, {"at": days / 2, "value": 20}]
    phase = {
        "duration": days,
        "time_units": "days",
        "daily": {"light_illuminance": light, "air_carbon_dioxide": air},
        "course": {"air_temperature": warmth},
    }
    return {"format": "phased", "phases": [phase]}


def _large() -> dict[str, Any]:
    numbers = random.Random(1)
    operations = [
        [index * DAYS * DAY_S // OPERATIONS, numbers.choice(VARIABLES), numbers.randint(0, 40)]
        for index in range(OPERATIONS)
    ]
    return {"format": "simple", "operations": operations}


def _look_at_all(recipe: dict[str, Any], elapsed: float) -> dict[str, float]:
    return {variable: value for offset, variable, value in recipe["operations"] if offset <= elapsed}


def _microseconds(work: Callable[[], object]) -> float:
    """Of CPU, so that whatever else the machine has to do counts for neither side."""
    began = time.thread_time()
    work()
    return (time.thread_time() - began) * 1e6


if __name__ == "__main__":
    main(measure, seconds=1.0)
