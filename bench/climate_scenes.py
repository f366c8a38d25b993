"""Temperature, humidity, pH and EC in the simulated chamber, beside plain on and off.

Plain on and off switches an output on below the set point by half of a band and off as far above it (with
two outputs at the set point), with the same sensor and filter. Errors are those of the true values; mean and
spread are taken in the second half of a step.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from climate_loop import ClimateLoop, Thermostat, climate_config, output
from measuring import Row, limited

from growd.runtime.event_loop import run_on_loop
from growd.variables import ACIDITY, CONDUCTIVITY, FAN, HUMIDITY, TEMPERATURE
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.tank import TankParameters
from growd_simulation.simulated_clock import SimulatedLoop

if TYPE_CHECKING:
    from closed_loop import Part

    from growd.config import Output

HEATER = output("air_heater", TEMPERATURE, power_w=200.0)
COOLER = output("air_cooler", TEMPERATURE, lowers=True, power_w=150.0)
EXHAUST = output(FAN, TEMPERATURE, HUMIDITY, lowers=True)
HUMIDIFIER = output("air_humidifier", HUMIDITY, power_w=25.0)
PUMP_ML_MIN = 30.0
NUTRIENTS = tuple(output(f"nutrient_{name}", CONDUCTIVITY, flow_ml_min=PUMP_ML_MIN) for name in ("a", "b"))
BASE = output("nutrient_ph_up", ACIDITY, flow_ml_min=PUMP_ML_MIN)
ACID = output("nutrient_ph_down", ACIDITY, lowers=True, flow_ml_min=PUMP_ML_MIN)


@dataclass(frozen=True)
class Scene:
    """A step of one variable. `band` is that of plain on and off, `most` the largest mean error of growd."""

    name: str
    variable: str
    outputs: tuple[Output, ...]
    set_point: float
    band: float
    most: float
    unit: str
    parameters: ChamberParameters
    lamps: float = 0.0
    hours: float = 1.0


SCENES = (
    Scene(
        "temperature, 22 to 26 degC, heater 200 W and fan, dark",
        TEMPERATURE, (HEATER, EXHAUST), 26.0, 0.5, 0.3, "degC", ChamberParameters(),
    ),
    Scene(
        "temperature, 22 degC under lamps, room 18 degC, heater 200 W and fan",
        TEMPERATURE, (HEATER, EXHAUST), 22.0, 0.5, 0.3, "degC",
        ChamberParameters(ambient_temperature_degc=18.0), lamps=1.0,
    ),
    Scene(
        "temperature, 24 degC under lamps, heater 200 W and compressor cooler 150 W",
        TEMPERATURE, (HEATER, COOLER), 24.0, 0.5, 0.3, "degC", ChamberParameters(), lamps=1.0,
    ),
    Scene(
        "humidity, to 75 %, humidifier 40 g/h and exhaust, dry room, dark",
        HUMIDITY, (HUMIDIFIER, EXHAUST), 75.0, 4.0, 1.5, "%",
        ChamberParameters(leaf_area_index=0.3, ambient_humidity_percent=25.0, leak_per_h=3.0),
    ),
    Scene(
        "humidity, 65 % under lamps over plants, humidifier and exhaust",
        HUMIDITY, (HUMIDIFIER, EXHAUST), 65.0, 4.0, 1.5, "%", ChamberParameters(), lamps=1.0,
    ),
    Scene(
        "pH, 7.0 to 5.8, acid and base, 16 l",
        ACIDITY, (BASE, ACID), 5.8, 0.2, 0.1, "pH",
        ChamberParameters(tank=TankParameters(start_potential_hydrogen=7.0)), lamps=1.0, hours=3.0,
    ),
    Scene(
        "EC, 1.0 to 1.8 mS/cm, two nutrients, 16 l",
        CONDUCTIVITY, NUTRIENTS, 1.8, 0.1, 0.05, "mS/cm",
        ChamberParameters(tank=TankParameters(start_conductivity_ms_cm=1.0)), lamps=1.0, hours=3.0,
    ),
)  # fmt: skip


@dataclass
class Result:
    """The figures of one step."""

    overshoot: float
    rise_s: float
    mean_error: float
    spread: float
    starts_per_h: float
    used: float


def scene_rows(rounds: int, seconds: float) -> list[Row]:
    """All scenes, the worst of all seeds. A short round has short steps."""
    rows: list[Row] = []
    for scene in SCENES:
        length = min(scene.hours * 3600.0, scene.hours * seconds)
        ours = _worst(
            [
                run_on_loop(_ran(scene, seed, length, plain=False), SimulatedLoop)
                for seed in range(1, rounds + 1)
            ]
        )
        theirs = _worst(
            [
                run_on_loop(_ran(scene, seed, length, plain=True), SimulatedLoop)
                for seed in range(1, rounds + 1)
            ]
        )
        rows += _rows(scene, ours, theirs)
    return rows


def _rows(scene: Scene, ours: Result, theirs: Result) -> list[Row]:
    name, unit = scene.name, scene.unit
    what, of = ("liquid", "ml") if scene.variable in (ACIDITY, CONDUCTIVITY) else ("energy", "Wh")
    rows = [
        limited(f"{name}: rise to 90 %", "s", ours.rise_s, None, theirs.rise_s),
        limited(f"{name}: overshoot", unit, ours.overshoot, None, theirs.overshoot),
        limited(f"{name}: mean error", unit, ours.mean_error, scene.most, theirs.mean_error),
        limited(f"{name}: standard deviation", unit, ours.spread, None, theirs.spread),
        limited(f"{name}: starts of outputs", "1/h", ours.starts_per_h, None, theirs.starts_per_h),
    ]
    return [*rows, limited(f"{name}: {what}", of, ours.used, None, theirs.used)]


def _plain(loop: ClimateLoop, scene: Scene) -> list[Part]:
    raises = [each.own_variable for each in scene.outputs if each.direction == "raises"]
    lowers = [each.own_variable for each in scene.outputs if each.direction == "lowers"]
    return [Thermostat(loop, scene.variable, scene.band, raises, lowers)]


async def _ran(scene: Scene, seed: int, seconds: float, *, plain: bool) -> Result:
    config = climate_config([scene.variable], scene.outputs)
    others = partial(_plain, scene=scene) if plain else None
    loop = ClimateLoop(config, scene.parameters, seed=seed, others=others)
    async with loop.running():
        loop.light(scene.lamps)
        loop.chamber.set_actuator("water_pump", 1.0)
        await loop.clock.advance(60)
        return await _watched(loop, scene, seconds)


async def _watched(loop: ClimateLoop, scene: Scene, seconds: float) -> Result:
    start = loop.true(scene.variable)
    loop.want(scene.variable, scene.set_point)
    way, size = math.copysign(1.0, scene.set_point - start), abs(scene.set_point - start)
    rise, beyond, values = seconds, 0.0, []
    for second in range(int(seconds)):
        await loop.clock.advance(1.0)
        value = loop.true(scene.variable)
        values.append(value)
        if rise == seconds and way * (value - start) >= 0.9 * size:
            rise = float(second)
        if rise < seconds:
            beyond = max(beyond, way * (value - scene.set_point))
    half = values[len(values) // 2 :]
    return Result(
        beyond,
        rise,
        abs(statistics.fmean(half) - scene.set_point),
        statistics.pstdev(half),
        sum(loop.starts.values()) * 3600.0 / seconds,
        _used(loop, scene),
    )


def _used(loop: ClimateLoop, scene: Scene) -> float:
    """Energy in Wh, or volume in ml."""
    if scene.variable in (ACIDITY, CONDUCTIVITY):
        return sum(loop.on_s(each.name) * PUMP_ML_MIN / 60.0 for each in scene.outputs)
    return sum(loop.on_s(each.name) * (each.power_w or 0.0) / 3600.0 for each in scene.outputs)


def _worst(each: list[Result]) -> Result:
    return Result(*(max(getattr(one, name) for one in each) for name in Result.__annotations__))
