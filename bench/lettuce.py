"""A lettuce grow in the simulation with every loop closed, and faults at random.

The chamber of the profile "climate" with the daemon's own samplers, filters, controllers, interlocks and
actuators, on the clock of the tests that jumps from one event to the next. Lettuce grows from transplants of
1 g/m2 of dry mass. Each day has faults of parts and sensors, an open door, and a power cut with a restart, at
random times of a seed; from seven to 21 h a grower looks in every two hours and resets interlocks that have
latched. Each week the nutrient solution is renewed, since the salts of tap water stay in it, and each 30 days
lettuce is harvested and planted.

A cooler and a dehumidifier keep the chamber closed: an exhaust fan that dries grown plants would take the CO2
with it.

A checker sees only the truth of the simulation: each level that reaches the chamber, and its air and water.
It counts what passes a limit of an interlock. Errors are those of the true values, over all times at which
there is a set point, with those of the faults. A day takes half a minute of CPU.
"""

from __future__ import annotations

import importlib
import logging
import random
import sys
import time
from collections import Counter, defaultdict, deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from measuring import HERE, Options, Row, limited, main

from growd.config import Output, load
from growd.config.profiles import profile_path
from growd.control.interlocks.limits import PUMP_ON_S
from growd.output_roles import Lease
from growd.runtime.event_loop import run_on_loop
from growd_hwsim.faults import Fault
from growd_hwsim.tank import Tank
from growd_simulation.simulated_clock import SimulatedLoop

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from growd_hwsim.chamber import SimulatedChamber

DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3_600.0, 60.0
START: Final = 1_699_920_000.0  # midnight
PERIOD_S: Final = 10.0
LATER: Final = 2.5
"""Commands and readings go stale this many times later, since the loops that renew them run less often."""
PERIODS: Final[dict[str, float | Lease]] = {
    "growd.control.sampling.SLICE_S": 600.0,
    "growd.control.filters.SLICE_S": 600.0,
    "growd.control.controllers.PERIOD_S": PERIOD_S,
    "growd.control.actuation.PERIOD_S": PERIOD_S,
    "growd.output_roles.HARMFUL": Lease(4 * PERIOD_S, PERIOD_S),
    "growd.control.interlocks.node.PERIOD_S": PERIOD_S,
    "growd.control.health.COUNTERS_S": HOUR_S,
    "growd.control.derived.node.PERIOD_S": MINUTE_S,
    "growd.control.attainment.PERIOD_S": MINUTE_S,
    "growd.control.output_control.COMMAND_STALE_S": LATER * 5.0,
    "growd.control.interlocks.node.PATIENCE_S": LATER * 5.0,
}
"""Loops run less often than in the daemon, to save time: what they keep is kept less exactly."""

FAULTS: Final = (
    ("absent", "scd30"),
    ("absent", "bh1750"),
    ("absent", "i2c-1:0x48"),
    ("frozen", "scd30"),
    ("noise", "scd30"),
    ("without_effect", "heater"),
    ("welded", "heater"),
    ("without_effect", "valve"),
    ("without_effect", "humidifier"),
    ("without_effect", "cooler"),
    ("without_effect", "dehumidifier"),
    ("without_effect", "ph_down"),
    ("without_effect", "nutrient_a"),
    ("without_effect", "water_pump"),
    ("held_open", "door"),
)
FAULTS_A_DAY: Final = 3
SHORTEST_S, LONGEST_S = 5 * MINUTE_S, 2 * HOUR_S
NOISE_PPM: Final = 1_000.0
RESTART: Final = "power cut and restart"
RECOVERY_S: Final = 6 * HOUR_S  # what has not recovered by then is counted as that long

DAY_H, NIGHT_H = 6.0, 22.0
COOLER = Output(
    name="cooler",
    kind="pwm",
    pin=6,
    drives=("air_temperature",),
    direction="lowers",
    power_w=60.0,
    minimum_off_s=0.0,
)
DEHUMIDIFIER = Output(
    name="dehumidifier",
    kind="pwm",
    pin=20,
    drives=("air_humidity",),
    direction="lowers",
    power_w=150.0,
    minimum_off_s=0.0,
)
DRIED_M3_S, DRIER_W = 0.0048, 150.0  # 6 l a day from air of 30 degC and 80 %
RENEWED_DAYS: Final = 7
CROP_DAYS: Final = 30
VISITS_H: Final = range(7, 22, 2)
SET_POINTS: Final[dict[str, tuple[float, float]]] = {
    "light_illuminance": (14_000.0, 0.0),
    "air_temperature": (25.0, 22.5),
    "air_humidity": (70.0, 70.0),
    "air_carbon_dioxide": (800.0, 400.0),
    "water_potential_hydrogen": (5.8, 5.8),
    "water_electrical_conductivity": (1.6, 1.6),
    "water_level": (80.0, 80.0),
    "water_circulation": (1.0, 1.0),
}
"""By day and by night."""


@dataclass(frozen=True)
class Loop:
    """A controlled variable: its unit, its true value, and how near to the set point counts as reached."""

    unit: str
    true: Callable[[SimulatedChamber], float]
    band: float
    by_day_only: bool = False


LOOPS: Final = {
    "light_illuminance": Loop("lux", lambda chamber: chamber.illuminance_lux(), 700.0, by_day_only=True),
    "air_temperature": Loop("degC", lambda chamber: chamber.air().temperature_degc, 1.0),
    "air_humidity": Loop("percent", lambda chamber: chamber.air().humidity_percent, 5.0),
    "air_carbon_dioxide": Loop("ppm", lambda chamber: chamber.carbon_dioxide_ppm(), 75.0, by_day_only=True),
    "water_potential_hydrogen": Loop("pH", lambda chamber: chamber.water().potential_hydrogen, 0.3),
    "water_electrical_conductivity": Loop("mS/cm", lambda chamber: chamber.water().conductivity_ms_cm, 0.15),
    "water_level": Loop("percent", lambda chamber: chamber.water().level_percent, 10.0),
}
HEAT_W: Final = {
    "heater": 200.0,
    "cooler": 60.0,
    "humidifier": 20.0,
    "dehumidifier": DRIER_W,
    "fan": 5.0,
    "water_pump": 5.0,
}
FRESH_OF_DRY: Final = 20.0  # lettuce is 95 % water


NEVER_TOGETHER: Final = (("heater", "cooler"), ("humidifier", "dehumidifier"))


@dataclass
class Use:
    """How an actuator worked: the level now, since when, the seconds at full level, and its runs."""

    level: float = 0.0
    since: float = 0.0
    total_s: float = 0.0
    runs: deque[tuple[float, float, float]] = field(default_factory=deque)
    """Begin, end and level of those of the last day."""

    def move(self, level: float, now: float) -> None:
        if self.level:
            self.total_s += self.level * (now - self.since)
            self.runs.append((self.since, now, self.level))
        while self.runs and self.runs[0][1] < now - DAY_S:
            self.runs.popleft()
        self.level, self.since = level, now

    def within(self, seconds: float, now: float) -> float:
        """Seconds at full level within the last so many."""
        runs = (*self.runs, (self.since, now, self.level))
        return sum(level * max(0.0, end - max(begin, now - seconds)) for begin, end, level in runs)


class Checker:
    """Looks at what reaches the chamber, and counts what no interlock may let pass.

    A level is that which growd wrote; a welded relay is a fault that no interlock can end. Limits have a
    margin for what sensors see later: `PERIOD_S` three times over, and the accuracy of the sensor.
    """

    margin_s = 3 * PERIOD_S

    def __init__(self, limits: Any) -> None:
        self.passed: Counter[str] = Counter()
        self.checks = 0
        self.uses: defaultdict[str, Use] = defaultdict(Use)
        self._limits = limits
        self._since: dict[str, float] = {}  # by rule: since when it has been broken

    def watch(self, chamber: SimulatedChamber, now: Callable[[], float]) -> None:
        """See each move of an actuator, before the chamber does."""
        move = chamber.set_actuator

        def seen(name: str, level: float, at: float | None = None) -> None:
            self.uses[name].move(level, now())
            for pair in NEVER_TOGETHER:
                if name in pair and all(self.uses[each].level > 0 for each in pair):
                    self.passed[" and ".join(pair)] += 1
            move(name, level, at)

        chamber.set_actuator = seen  # type: ignore[method-assign]

    def power_cut(self, now: float) -> None:
        """Nothing works."""
        for use in self.uses.values():
            use.move(0.0, now)

    def check(self, chamber: SimulatedChamber, now: float, known: set[str]) -> None:
        """Look now. `known` has the sensors that tell the truth: others' limits cannot be kept."""
        self.checks += 1
        for rule, is_broken in self._rules(chamber, now, known):
            if not is_broken:
                self._since.pop(rule, None)
            elif now - self._since.setdefault(rule, now) >= MINUTE_S:  # sensors and filters lag
                self.passed[rule] += 1

    def _rules(self, chamber: SimulatedChamber, now: float, known: set[str]) -> Iterator[tuple[str, bool]]:
        limits, uses, air, water = self._limits, self.uses, chamber.air(), chamber.water()
        if "scd30" in known:
            too_hot = air.temperature_degc > limits.heater_off_degc + 1.0
            yield "heater on above its cut-off", too_hot and uses["heater"].level > 0
            too_rich = air.carbon_dioxide_ppm > 1.03 * limits.ceiling_ppm + 30.0
            yield "valve open above the ceiling", too_rich and uses["valve"].level > 0
        if "i2c-1:0x48" in known:
            yield "filled above the high level", water.level_percent > 98.0 and uses["fill"].level > 0
        yield from self._of_times(now)

    def _of_times(self, now: float) -> Iterator[tuple[str, bool]]:
        limits, uses = self._limits, self.uses
        for name, longest_s in (
            ("valve", limits.valve_open_s),
            ("fill", PUMP_ON_S),
            ("ph_down", limits.dose_longest_s),
            ("nutrient_a", limits.dose_longest_s),
        ):
            is_long = uses[name].level > 0 and now - uses[name].since > longest_s + self.margin_s
            yield f"{name} on for longer than allowed", is_long
        dosed_s = uses["valve"].within(HOUR_S, now)
        yield "dose of CO2 in an hour", dosed_s > limits.dose_s + self.margin_s
        for name in ("ph_down", "nutrient_a"):
            ml_s = 0.5  # 30 ml/min
            hour_ml, day_ml = (ml_s * uses[name].within(span, now) for span in (HOUR_S, DAY_S))
            yield f"{name}: volume in an hour", hour_ml > limits.dosing_ml_per_hour + self.margin_s * ml_s
            yield f"{name}: volume in a day", day_ml > limits.dosing_ml_per_day + self.margin_s * ml_s


@dataclass
class Tally:
    """The errors of a loop."""

    looks: int = 0
    met: int = 0
    error: float = 0.0

    def look(self, error: float, band: float) -> bool:
        self.looks += 1
        self.met += abs(error) <= band
        self.error += abs(error)
        return abs(error) <= band


@dataclass(frozen=True)
class Planned:
    """A fault with its times, in seconds from the start."""

    kind: str
    device: str
    begin: float
    end: float

    @property
    def name(self) -> str:
        return self.kind if self.kind == RESTART else f"{self.device} {self.kind}"


def planned(days: float, dice: random.Random) -> list[Planned]:
    """The faults of all days, none while another one lasts: it shows how long each takes to recover."""
    found: list[Planned] = []
    waiting: list[tuple[str, str]] = []
    for day in range(max(1, int(days))):
        for part in range(FAULTS_A_DAY):
            waiting = waiting or dice.sample(FAULTS, len(FAULTS))
            kind, device = waiting.pop()
            begin = day * DAY_S + (part + dice.random() * 0.5) * DAY_S / FAULTS_A_DAY
            lasts = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** dice.random()
            found.append(Planned(kind, device, begin, begin + lasts))
        cut = day * DAY_S + (dice.random() * 0.2 + 0.75) * DAY_S
        found.append(Planned(RESTART, "", cut, cut + dice.uniform(10.0, HOUR_S / 2)))
    end = days * DAY_S - HOUR_S
    return sorted((each for each in found if each.end < end), key=lambda each: each.begin)


def fresh_g(chamber: SimulatedChamber) -> float:
    """The fresh mass of all plants."""
    return chamber.dry_mass_g_m2() * FRESH_OF_DRY * chamber.parameters.growing_area_m2


def replant(chamber: SimulatedChamber) -> None:
    """Transplants take the place of the plants."""
    chamber.moved = chamber.moved._replace(uptake_mol=0.0)


def _sealed(output: Output) -> Output:
    """An output of the profile; its fan only for too much CO2."""
    if output.name != "fan":
        return output
    return msgspec.structs.replace(output, drives=("air_carbon_dioxide",))


def _later(section: Any) -> Any:
    """What it gets goes stale later."""
    return msgspec.structs.replace(section, stale_after_s=LATER * section.stale_after_s)


class Grow:
    """The chamber over weeks."""

    def __init__(self, days: float, seed: int) -> None:
        sys.path.append(str(HERE.parent / "tests"))
        self._rigged: Any = importlib.import_module("support.rig").rigged
        self._memory: Any = importlib.import_module("support.memory").ShortMemory()
        config = load(profile_path("climate"))
        sensors = (
            msgspec.structs.replace(each, interval_s=max(PERIOD_S, each.interval_s)) for each in config.sensor
        )
        outputs = map(_later, (*map(_sealed, config.output), COOLER, DEHUMIDIFIER))
        self._config = msgspec.structs.replace(
            config,
            sensor=tuple(sensors),
            output=tuple(outputs),
            light=_later(config.light),
            filter=_later(config.filter),
        )
        self._end = days * DAY_S
        self.plan = planned(days, random.Random(seed))
        self.checker = Checker(self._config.interlock)
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self.recoveries: defaultdict[str, list[float]] = defaultdict(list)
        self.resets: Counter[str] = Counter()
        self.elapsed = 0.0
        self.chamber: Any = None
        self._rig: Any = None
        self._wanted: dict[str, float] = {}
        self._week = self._crop = 0
        self.harvested_g = 0.0
        self._lacking: Planned | None = None  # a fault that is over, while loops are not back
        self._well: set[str] = set()
        self._well_before: dict[Planned, set[str]] = {}

    async def run(self) -> None:
        """Let it grow, from power cut to power cut."""
        cuts = [each for each in self.plan if each.kind == RESTART]
        for cut in (*cuts, Planned("", "", self._end, self._end)):
            if cut.begin <= self.elapsed:
                continue
            async with AsyncExitStack() as stack:
                await self._begin(stack)
                await self._live(cut.begin)
                self.checker.power_cut(self._now())
            if cut.kind:
                self._well_before[cut] = set(self._well)
                self._struck(cut)
                self.elapsed = cut.end

    async def _begin(self, stack: AsyncExitStack) -> None:
        """Start growd, with the chamber as it was left."""
        rig = await stack.enter_async_context(
            self._rigged(self._config, self._memory, time=START + self.elapsed)
        )
        self._rig, self._origin = rig, rig.clock.monotonic() - self.elapsed
        before, self.chamber = self.chamber, rig.machine.chamber
        if before is None:
            seedlings = replace(
                self.chamber.parameters,
                grows=True,
                dry_mass_g_m2=1.0,
                leaf_area_index=0.07,
                dark_respiration_umol_m2_s=0.32 / 14,
                dehumidifier_m3_s=DRIED_M3_S,
                dehumidifier_w=DRIER_W,
            )
            self.chamber.parameters = seedlings
        else:
            self.chamber.take_over(before)
        self.checker.watch(self.chamber, self._now)
        recipe = rig.bus.node("recipe")
        self._publishers = {name: recipe.publisher(f"environment_1/desired/{name}") for name in SET_POINTS}
        self._wanted = {}

    def _now(self) -> float:
        return float(self._rig.clock.monotonic() - self._origin)

    async def _live(self, until: float) -> None:
        """A minute after another: set points, faults, a look."""
        while self.elapsed < until - 1e-6:
            self._want()
            await self._rig.clock.advance(min(MINUTE_S, until - self.elapsed))
            before, self.elapsed = self.elapsed, self._now()
            for each in self.plan:
                if each.kind != RESTART and before < each.begin <= self.elapsed:
                    self._inject(each)
                if each.kind != RESTART and before < each.end <= self.elapsed:
                    self._rig.machine.faults.clear(each.device, each.kind)
                    self._struck(each)
            self._look()
            if any(before % DAY_S < hour * HOUR_S <= self.elapsed % DAY_S for hour in VISITS_H):
                await self._visit()
            if before // DAY_S < self.elapsed // DAY_S:
                self._tell_progress()

    def _inject(self, each: Planned) -> None:
        self._well_before[each] = set(self._well)
        noisy = each.kind == "noise"
        fault = Fault(
            each.kind,
            each.device,
            probability=0.05 if noisy else 1.0,
            amount=NOISE_PPM if noisy else None,
        )
        self._rig.machine.faults.inject(fault)

    def _want(self) -> None:
        is_day = DAY_H <= self.elapsed % DAY_S / HOUR_S < NIGHT_H
        for name, (day, night) in SET_POINTS.items():
            value = day if is_day else night
            if self._wanted.get(name) != value:
                self._wanted[name] = value
                self._publishers[name].publish(value)

    def _look(self) -> None:
        active = {each.device for each in self.plan if each.begin <= self.elapsed <= each.end + 2 * MINUTE_S}
        known = {"scd30", "i2c-1:0x48"} - active
        self.checker.check(self.chamber, self.elapsed, known)
        is_day = DAY_H <= self.elapsed % DAY_S / HOUR_S < NIGHT_H
        for name, loop in LOOPS.items():
            if is_day or not loop.by_day_only:
                error = loop.true(self.chamber) - self._wanted[name]
                is_met = self.tallies[name].look(error, loop.band)
                self._well = self._well | {name} if is_met else self._well - {name}
        lacking = self._lacking
        if lacking and (
            self._well >= self._well_before.get(lacking, set()) or self.elapsed - lacking.end > RECOVERY_S
        ):
            self._struck(None)

    def _tell_progress(self) -> None:
        """A line a day: how far each loop is from its set points, so far, and what was passed and reset."""
        shares = (
            f"{name} {100 * each.met / max(1, each.looks):.0f} %" for name, each in self.tallies.items()
        )
        told = ", ".join(shares)
        passed, resets = self.checker.passed.total(), dict(self.resets)
        print(
            f"day {self.elapsed / DAY_S:.0f}: {told}; passed {passed}; resets {resets}",
            file=sys.stderr,
            flush=True,
        )

    def _struck(self, following: Planned | None) -> None:
        """A fault is over; the one before has recovered, or is overtaken by the next."""
        if self._lacking:
            self.recoveries[self._lacking.name].append(max(0.0, self.elapsed - self._lacking.end))
        self._lacking = following

    async def _visit(self) -> None:
        """The grower resets what has latched, renews the nutrient solution, and harvests."""
        if (week := int(self.elapsed // (RENEWED_DAYS * DAY_S))) != self._week:
            self._week = week
            self.chamber.tank = Tank(self.chamber.parameters.tank)
        if (crop := int(self.elapsed // (CROP_DAYS * DAY_S))) != self._crop:
            self._crop = crop
            self.harvested_g += fresh_g(self.chamber)
            replant(self.chamber)
        services = self._rig.bus.services
        for name in services.names():
            if name.startswith("environment_1/interlocks/") and name.endswith("/reset"):
                answer = await services.get(name).call()
                if answer.get("success") and "has been reset" in answer.get("message", ""):
                    self.resets[name.split("/")[2]] += 1


def rows_of(grow: Grow) -> Iterator[Row]:
    for name, loop in LOOPS.items():
        tally = grow.tallies[name]
        yield limited(f"{name}: mean error", loop.unit, tally.error / max(1, tally.looks))
        yield limited(f"{name}: within {loop.band:g} {loop.unit}", "%", 100 * tally.met / max(1, tally.looks))
    yield limited("limits of interlocks passed", "1", sum(grow.checker.passed.values()), 0.0)
    yield limited("checks of all limits", "1", grow.checker.checks)
    for name, times in sorted(grow.recoveries.items()):
        yield limited(f"fault {name}: times", "1", len(times))
        yield limited(f"fault {name}: loops back as before, mean", "min", sum(times) / len(times) / MINUTE_S)
    for name, number in sorted(grow.resets.items()):
        yield limited(f"interlock {name}: reset by the grower", "1", number)
    yield from _consumption(grow)


def _consumption(grow: Grow) -> Iterator[Row]:
    chamber, uses = grow.chamber, grow.checker.uses
    for name, watts in HEAT_W.items():
        yield limited(f"energy of the {name.replace('_', ' ')}", "kWh", watts * uses[name].total_s / 3.6e6)
    parameters = chamber.parameters
    litres = parameters.valve_flow_l_min * uses["valve"].total_s / MINUTE_S
    yield limited("CO2", "l", litres)
    for name in ("ph_down", "nutrient_a"):
        yield limited(name, "ml", parameters.tank.dosing_ml_min * uses[name].total_s / MINUTE_S)
    yield limited("tap water", "l", parameters.tank.fill_l_min * uses["fill"].total_s / MINUTE_S)
    yield limited("harvest, fresh", "g", grow.harvested_g + fresh_g(chamber))


def measure(options: Options) -> list[Row]:
    for name, period in PERIODS.items():
        module, _, attribute = name.rpartition(".")
        setattr(importlib.import_module(module), attribute, period)
    logging.disable(logging.CRITICAL)
    grow = Grow(options.arguments.days, options.arguments.seed)
    began = time.process_time()
    run_on_loop(grow.run(), SimulatedLoop)
    for rule, number in grow.checker.passed.items():
        print(f"passed: {rule}, in {number} looks", file=sys.stderr)
    taken = limited("CPU for a day", "s", (time.process_time() - began) / options.arguments.days)
    return [*rows_of(grow), taken]


def add_days(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=float, default=1.0, help="of the grow  [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of the faults  [default: %(default)s]")


if __name__ == "__main__":
    main(measure, rounds=1, seconds=0.0, add_arguments=add_days)
