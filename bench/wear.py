"""Starts of heater, fan and CO2 valve in the simulated chamber of the profile `climate`, with its interlocks.

Day and night are those of the recipe `climate_day`, after an hour in which the air settles (--seconds is the
length of what is measured then). Errors are root mean squares of the true air. The reference has solid-state
relays everywhere. The limits of errors are half more than what growd had when it switched the valve 109, the
fan 70 and the heater 65 times an hour: 0.39 K, 2.3 % and 34 ppm.

With all outputs on relays the errors have no limits, since no controller can keep them: the reference is the
best of all regular doses, 12 an hour, of heater or fan, beside which the other one is perfect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import msgspec
from climate_loop import ENVIRONMENT, ClimateLoop
from measuring import Options, Row, limited, main

from growd.config import Chamber, Config, load
from growd.config.profiles import profile_path
from growd.runtime.event_loop import run_on_loop
from growd.variables import CARBON_DIOXIDE, HUMIDITY, ILLUMINANCE, TEMPERATURE
from growd_hwsim.chamber import SimulatedChamber
from growd_simulation.simulated_clock import SimulatedLoop

SETTLES_S: Final = 3_600.0
FULL_LUX: Final = 20_000.0
OUTPUTS: Final = ("heater", "fan", "valve", "humidifier")
STARTS_PER_H: Final = {"heater": 12.0, "fan": 12.0, "valve": 40.0}
LIMITS: Final = {TEMPERATURE: 0.58, HUMIDITY: 3.45, CARBON_DIOXIDE: 51.0}
UNITS: Final = {TEMPERATURE: "K", HUMIDITY: "%", CARBON_DIOXIDE: "ppm"}
REGULAR: Final = {TEMPERATURE: "heater", HUMIDITY: "fan"}
SHARES: Final = {"heater": (0.02, 0.03, 0.04, 0.05, 0.06), "fan": (0.25, 0.3, 0.35, 0.4, 0.45)}

DAY: Final = {ILLUMINANCE: 14_000.0, TEMPERATURE: 25.0, HUMIDITY: 75.0, CARBON_DIOXIDE: 700.0}
NIGHT: Final = {ILLUMINANCE: 0.0, TEMPERATURE: 22.5, HUMIDITY: 75.0, CARBON_DIOXIDE: 400.0}


@dataclass(frozen=True)
class Wear:
    """Starts per hour by output, and the root mean square error by variable."""

    starts_per_h: dict[str, float]
    errors: dict[str, float]


def climate(kind: str = "") -> Config:
    """The profile `climate` with its SCD30, and with its outputs for the air on this kind, "" as shipped."""
    profile = load(profile_path("climate"))
    outputs = tuple(
        msgspec.structs.replace(each, kind=kind or each.kind)
        for each in Chamber(profile, ENVIRONMENT).outputs
        if each.name in OUTPUTS
    )
    sensors = tuple(each for each in profile.sensor if each.kind == "scd30")
    return msgspec.structs.replace(profile, sensor=sensors, output=outputs)


async def worn(config: Config, set_points: dict[str, float], seconds: float, seed: int = 1) -> Wear:
    """What outputs and air did at these set points, from an hour on."""
    loop = ClimateLoop(config, seed=seed, is_guarded=True)
    async with loop.running():
        _light(loop.chamber, loop.config.lamp_mix, set_points)
        for variable in LIMITS:
            loop.want(variable, set_points[variable])
        await loop.clock.advance(SETTLES_S)
        before, squares = dict(loop.starts), dict.fromkeys(LIMITS, 0.0)
        steps = max(1, round(seconds))
        for _ in range(steps):
            await loop.clock.advance(1.0)
            for variable in LIMITS:
                squares[variable] += (loop.true(variable) - set_points[variable]) ** 2
    return Wear(
        {name: (loop.starts.get(name, 0) - before.get(name, 0)) * 3_600.0 / steps for name in OUTPUTS},
        {variable: math.sqrt(total / steps) for variable, total in squares.items()},
    )


def best_regular(variable: str, set_points: dict[str, float], seconds: float) -> float:
    """The least error of temperature or humidity with the best share of on-time in 12 doses an hour."""
    return min(_regular(variable, share, set_points, seconds) for share in SHARES[REGULAR[variable]])


def _regular(variable: str, share: float, set_points: dict[str, float], seconds: float) -> float:
    """The error with doses of one output; the level of the other one holds its variable perfectly."""
    now = 0.0
    chamber = SimulatedChamber(lambda: now, seed=1)
    _light(chamber, Chamber(climate(), ENVIRONMENT).lamp_mix, set_points)
    period, integral, total = 3_600.0 / STARTS_PER_H[REGULAR[variable]], 0.2, 0.0
    steps = max(1, round(seconds))
    for second in range(int(SETTLES_S) + steps):
        air = chamber.air()
        errors = {
            TEMPERATURE: set_points[TEMPERATURE] - air.temperature_degc,
            HUMIDITY: air.humidity_percent - set_points[HUMIDITY],
        }
        for each, output in REGULAR.items():
            integral += 5e-4 * errors[each] if each != variable else 0.0
            level = (
                float(second % period < share * period)
                if each == variable
                else integral + 0.05 * errors[each]
            )
            chamber.set_actuator(output, max(0.0, min(1.0, level)))
        total += errors[variable] ** 2 if second >= SETTLES_S else 0.0
        now += 1.0
    return math.sqrt(total / steps)


def _light(chamber: SimulatedChamber, mix: dict[str, float], set_points: dict[str, float]) -> None:
    for channel, share in mix.items():
        chamber.set_lamp(channel, share * set_points[ILLUMINANCE] / FULL_LUX)


def measure(options: Options) -> list[Row]:
    rows: list[Row] = []
    for name, set_points in (("day", DAY), ("night", NIGHT)):
        shipped, relays, solid = (
            _worst(climate(kind), set_points, options.seconds, options.rounds)
            for kind in ("", "relay", "ssr")
        )
        regular = {each: best_regular(each, set_points, options.seconds) for each in REGULAR}
        rows += _starts(f"{name}, as shipped", shipped, solid, {"valve": STARTS_PER_H["valve"]})
        rows += _errors(f"{name}, as shipped", shipped, solid.errors, LIMITS if name == "day" else {})
        rows += _starts(f"{name}, all on relays", relays, solid, STARTS_PER_H)
        rows += _errors(f"{name}, all on relays", relays, regular, {})
    return rows


def _worst(config: Config, set_points: dict[str, float], seconds: float, rounds: int) -> Wear:
    """The largest figures of all seeds."""
    taken = [
        run_on_loop(worn(config, set_points, seconds, seed), SimulatedLoop) for seed in range(1, rounds + 1)
    ]
    return Wear(
        {name: max(each.starts_per_h[name] for each in taken) for name in OUTPUTS},
        {name: max(each.errors[name] for each in taken) for name in LIMITS},
    )


def _starts(name: str, ours: Wear, theirs: Wear, limits: dict[str, float]) -> list[Row]:
    return [
        limited(f"{name}: starts of the {each}", "1/h", starts, limits.get(each), theirs.starts_per_h[each])
        for each, starts in ours.starts_per_h.items()
    ]


def _errors(name: str, ours: Wear, theirs: dict[str, float], limits: dict[str, float]) -> list[Row]:
    return [
        limited(f"{name}: error of {each}", unit, ours.errors[each], limits.get(each), theirs.get(each))
        for each, unit in UNITS.items()
    ]


if __name__ == "__main__":
    main(measure, rounds=2, seconds=10_800.0)
