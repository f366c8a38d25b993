"""Sensors that do not tell the truth: how far the true values go, and when growd notices.

The chamber of the profile "climate", with a pump for base and a fan for CO2 only, on the clock of the tests
that jumps from one event to the next. All loops are closed. After an hour with true readings one sensor, or
two, tell a lie for the rest of the time. The worst true value is that of the variable that suffers most.
growd has noticed when its status has a problem or a tripped interlock that it did not have before. A lie
takes 20 s of CPU.
"""

from __future__ import annotations

import importlib
import logging
import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from measuring import HERE, Options, Row, limited, main

from growd.config import Output, Sensor, load
from growd.config.profiles import profile_path
from growd.control.topics import posted
from growd.runtime.event_loop import run_on_loop
from growd.status.status_node import StatusNode
from growd.variables import (
    ACIDITY,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    HUMIDITY,
    ILLUMINANCE,
    TEMPERATURE,
    VARIABLES,
    WATER_LEVEL,
    WATER_TEMPERATURE,
)
from growd_simulation.simulated_clock import SimulatedLoop

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from growd_hwsim.chamber import SimulatedChamber

    Truth = Mapping[str, float]

ENVIRONMENT: Final = "environment_1"
SENSOR_S: Final = 2.0
TRUE_S: Final = 3_600.0
MINUTE_S: Final = 60.0
SET_POINTS: Final = {
    ILLUMINANCE: 5_000.0,
    TEMPERATURE: 25.0,
    HUMIDITY: 70.0,
    CARBON_DIOXIDE: 1_000.0,
    ACIDITY: 5.8,
    CONDUCTIVITY: 1.6,
    WATER_LEVEL: 80.0,
    "water_circulation": 1.0,
}
NOISE: Final = {TEMPERATURE: 0.02, HUMIDITY: 0.1, CARBON_DIOXIDE: 5.0, ILLUMINANCE: 20.0, WATER_LEVEL: 0.2}
"""Standard deviations; 0.01 for others."""
BASE: Final = Output(
    name="base", pin=4, drives=(ACIDITY,), direction="raises", variable="nutrient_ph_up", flow_ml_min=30.0
)


def stuck(variable: str, value: float) -> Callable[[Truth], Truth]:
    """The readings of a sensor that has stopped, its noise apart."""
    return lambda _: {variable: value}


def scaled(variable: str, factor: float) -> Callable[[Truth], Truth]:
    """The readings of a sensor with a wrong slope."""
    return lambda true: {variable: factor * true[variable]}


@dataclass(frozen=True)
class Lie:
    """What is read in place of the truth, and the variable that suffers, to its `worst`."""

    name: str
    told: Callable[[Truth], Truth]
    suffers: str
    worst: Callable[[float, float], float]


LIES: Final = (
    Lie("temperature sensor fallen out", lambda _: {TEMPERATURE: 22.0, HUMIDITY: 45.0}, TEMPERATURE, max),
    Lie("temperature x0.7", scaled(TEMPERATURE, 0.7), TEMPERATURE, max),
    Lie("humidity stuck at 50", stuck(HUMIDITY, 50.0), HUMIDITY, max),
    Lie("CO2 stuck at 500", stuck(CARBON_DIOXIDE, 500.0), CARBON_DIOXIDE, max),
    Lie("CO2 x0.7", scaled(CARBON_DIOXIDE, 0.7), CARBON_DIOXIDE, max),
    Lie("CO2 x0.1", scaled(CARBON_DIOXIDE, 0.1), CARBON_DIOXIDE, max),
    Lie("pH stuck at 6.3", stuck(ACIDITY, 6.3), ACIDITY, min),
    Lie("pH x1.3", scaled(ACIDITY, 1.3), ACIDITY, min),
    Lie("pH x0.5", scaled(ACIDITY, 0.5), ACIDITY, max),
    Lie(
        "pH and EC swapped",
        lambda true: {ACIDITY: true[CONDUCTIVITY], CONDUCTIVITY: true[ACIDITY]},
        ACIDITY,
        max,
    ),
    Lie("EC stuck at 1.2", stuck(CONDUCTIVITY, 1.2), CONDUCTIVITY, max),
    Lie("EC x0.5", scaled(CONDUCTIVITY, 0.5), CONDUCTIVITY, max),
    Lie("EC x1.3", scaled(CONDUCTIVITY, 1.3), CONDUCTIVITY, min),
    Lie("level stuck at 50", stuck(WATER_LEVEL, 50.0), WATER_LEVEL, max),
    Lie("level x0.7", scaled(WATER_LEVEL, 0.7), WATER_LEVEL, max),
)


def truth(chamber: SimulatedChamber) -> dict[str, float]:
    """The true values of all that is measured."""
    air, water = chamber.air(), chamber.water()
    return {
        CARBON_DIOXIDE: air.carbon_dioxide_ppm,
        TEMPERATURE: air.temperature_degc,
        HUMIDITY: air.humidity_percent,
        ILLUMINANCE: chamber.illuminance_lux(),
        ACIDITY: water.potential_hydrogen,
        CONDUCTIVITY: water.conductivity_ms_cm,
        WATER_LEVEL: water.level_percent,
        WATER_TEMPERATURE: water.temperature_degc,
    }


def _sealed(output: Output) -> Output:
    """An output of the profile; its fan, which takes the CO2 with it, only for too much of that."""
    return msgspec.structs.replace(output, drives=(CARBON_DIOXIDE,)) if output.name == "fan" else output


class Scene:
    """The chamber of one lie."""

    def __init__(self, lie: Lie, seed: int) -> None:
        self._lie = lie
        self._noise = random.Random(seed)
        self.worst: float | None = None
        self.noticed_min: float | None = None
        self.words = ""
        self._known: set[str] = set()

    async def run(self, hours: float) -> None:
        """An hour of truth, and hours of the lie."""
        sys.path.append(str(HERE.parent / "tests"))
        rigged: Any = importlib.import_module("support.rig").rigged
        config = load(profile_path("climate"))
        sensors = [
            Sensor(name=f"s{number}", kind="topic", variable=each, stale_after_s=60.0)
            for number, each in enumerate((*SET_POINTS, WATER_TEMPERATURE))
            if not VARIABLES[each].is_output
        ]
        outputs = (*map(_sealed, config.output), BASE)
        config = msgspec.structs.replace(config, sensor=tuple(sensors), output=outputs)
        async with rigged(config) as rig:
            self._rig = rig
            self._status = StatusNode(rig.bus, [ENVIRONMENT])
            node = rig.bus.node("sensors")
            self._publishers = {
                each.variable: node.publisher(posted(ENVIRONMENT, each.name)).publish for each in sensors
            }
            recipe = rig.bus.node("recipe")
            for name, value in SET_POINTS.items():
                recipe.publisher(f"{ENVIRONMENT}/desired/{name}").publish(value)
            await self._pass(TRUE_S, is_lying=False)
            self._known = {name for name, _ in self._complaints()}
            await self._pass(hours * 3600.0, is_lying=True)

    async def _pass(self, seconds: float, *, is_lying: bool) -> None:
        chamber, lie = self._rig.machine.chamber, self._lie
        for step in range(int(seconds / SENSOR_S)):
            true = truth(chamber)
            told = {**true, **(lie.told(true) if is_lying else {})}
            for name, publish in self._publishers.items():
                known = VARIABLES[name]
                value = told[name] + self._noise.gauss(0.0, NOISE.get(name, 0.01))
                publish(max(known.minimum, min(known.maximum, value)))
            await self._rig.clock.advance(SENSOR_S)
            if is_lying:
                value = true[lie.suffers]
                self.worst = value if self.worst is None else lie.worst(self.worst, value)
                self._look(step * SENSOR_S / MINUTE_S)

    def _look(self, minutes: float) -> None:
        if self.noticed_min is not None:
            return
        new = [(name, words) for name, words in self._complaints() if name not in self._known]
        if new:
            self.noticed_min, self.words = minutes, new[0][1]

    def _complaints(self) -> Iterator[tuple[str, str]]:
        """The problems of the status, and the interlocks that have tripped, for each a name and the words."""
        status = self._status.snapshot()
        for each in status.interlocks:
            if each.tripped and not each.is_expected and not each.is_quiet:
                yield each.name, f"{each.name}: {each.reason}"
        for problem in status.problems:
            yield problem.text.partition(" is ")[0][:60], problem.text


def measure(options: Options) -> list[Row]:
    logging.disable(logging.CRITICAL)
    arguments, rows = options.arguments, []
    for lie in LIES:
        if arguments.only and arguments.only not in lie.name:
            continue
        scene = Scene(lie, arguments.seed)
        run_on_loop(scene.run(arguments.hours), SimulatedLoop)
        unit = VARIABLES[lie.suffers].unit
        rows.append(limited(f"{lie.name}: worst true {lie.suffers}", unit, scene.worst or 0.0))
        noticed = float("inf") if scene.noticed_min is None else scene.noticed_min
        rows.append(limited(f"{lie.name}: noticed after", "min", noticed))
        print(f"{lie.name}: {scene.words or 'not noticed'}", file=sys.stderr, flush=True)
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hours", type=float, default=2.0, help="of each lie  [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the noise  [default: %(default)s]")
    parser.add_argument("--only", default="", help="lies with this in their names")


if __name__ == "__main__":
    main(measure, rounds=1, seconds=0.0, add_arguments=add_arguments)
