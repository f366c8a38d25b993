"""Random calls of every kind never take the simulated tank, air or pumps beyond the limits of the interlocks.

Calls enter where those of the API and of MQTT do: topics, services, parameters, commands by MQTT, recipes,
and edits of the configuration with a restart. Sensors tell the truth. Whoever calibrates a probe of the
water holds it into the solution that the call names, and whoever edits the configuration does not describe
another chamber: pumps, flows and the tank stay, and the mixing pause is as long as the tank needs to mix.
"""

import asyncio
import contextlib
import dataclasses
import math
import random
from collections import Counter
from datetime import UTC

import pytest
from msgspec import structs

from growd.bus.errors import BusError
from growd.bus.fields import Kind
from growd.config import InterlockOptions, Output, Sensor, load
from growd.config.findings import ConfigError
from growd.config.loops import LoopOptions
from growd.config.profiles import profile_path
from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.recipes.services import RecipeServices
from growd.variables import ACIDITY, CONDUCTIVITY, VARIABLES, WATER_LEVEL
from growd_analysis.recipes.desk import RecipeDesk
from growd_home.commands import Commands
from growd_home.layout import TopicNames
from growd_hwsim.tank import Tank
from support.memory import ShortMemory
from support.recipes import MemoryJournal, MemorySetPoints
from support.refusals import check_config
from support.rig import START, rigged
from support.running import in_tasks

pytestmark = pytest.mark.long

ENVIRONMENT = "environment_1"
LEAST_PH, MOST_MS_CM = 4.8, 3.7
BEYOND_CEILING_PPM = 500.0
"""What a valve lets in until the sensor shows it: 8.3 ppm/s for the lag of 20 s and the longest interval."""
BEYOND_ML = 0.5
"""3 s of a pump. On the clock that jumps nothing else happens while drivers wait for their chips: 0.6 s for
each EZO circuit and 0.75 s for the thermometer, one after the other."""
PUMPS = {
    "acid": ("nutrient_ph_down", "ph_down"),
    "base": ("nutrient_ph_up", "ph_up"),
    "nutrient": ("nutrient_a", "nutrient_a"),
    "second": ("nutrient_b", "nutrient_b"),
}
FLOW_ML_MIN = 10.0  # slow, so that what a dose is late changes little, also in a tank that is nearly empty
HOUR_S, DAY_S = 3_600.0, 86_400.0
PAUSE_S = 15.0
HARMFUL = {  # how often they are called
    "nutrient_ph_down": 8, "nutrient_ph_up": 1, "nutrient_a": 5, "nutrient_b": 5, ACIDITY: 6, CONDUCTIVITY: 4,
    "air_carbon_dioxide": 3, "air_carbon_dioxide_valve_on": 3, "water_circulation": 4,
    WATER_LEVEL: 1, "water_fill": 0.2, "water_drain": 0.4,
}  # fmt: skip
EDITED = {  # options of [interlock], each with the values that an edit may give it
    "acid_off_ph": (5.0, 6.0),
    "base_off_ph": (6.6, 8.0),
    "nutrients_off_ms_cm": (1.0, 3.5),
    "mixing_pause_s": (300.0, 900.0),
    "dose_longest_s": (0.1, 300.0),
    "dosing_ml_per_hour": (1.0, 200.0),
    "dosing_ml_per_day": (10.0, 1_000.0),
    "ceiling_ppm": (1_000.0, 5_000.0),
    "valve_open_s": (10.0, 3_600.0),
    "dose_s": (60.0, 3_600.0),
    "no_rise_open_s": (30.0, 3_600.0),
}


def described():
    """The chamber of the profile "climate", with more pumps and with probes that can be calibrated."""
    profile = load(profile_path("climate"))
    others = [each for each in profile.sensor if each.name not in {"ph_probe", "ec_probe"}]
    probes = [Sensor(name="ph", kind="ezo_ph", bus=1, interval_s=5.0)]
    probes.append(Sensor(name="ec", kind="ezo_ec", bus=1, interval_s=5.0))
    pumps = [
        Output(name="base", pin=4, variable="nutrient_ph_up", drives=(ACIDITY,), flow_ml_min=FLOW_ML_MIN),
        Output(name="second", pin=6, variable="nutrient_b", drives=(CONDUCTIVITY,), flow_ml_min=FLOW_ML_MIN),
        Output(name="drain", pin=7, drives=(WATER_LEVEL,), direction="lowers", flow_ml_min=2_000.0),
    ]
    slow = {"acid": FLOW_ML_MIN, "nutrient": FLOW_ML_MIN}
    outputs = [
        structs.replace(each, flow_ml_min=slow.get(each.name, each.flow_ml_min)) for each in profile.output
    ]
    return structs.replace(profile, sensor=(*others, *probes), output=(*outputs, *pumps))


DESCRIBED = described()


class Volumes:
    """What a pump gave in the last hour and day, from what the chamber saw."""

    def __init__(self):
        self.level = self.since = self.total_s = 0.0
        self.given = []  # begin, end and level of each dose

    def move(self, level, now):
        if self.level:
            self.given.append((self.since, now, self.level))
        self.level, self.since = level, now

    def has_given(self, now):
        """Whether it has given anything since the last call."""
        before, self.total_s = self.total_s, sum(end - begin for begin, end, _ in self.given)
        if self.level:
            self.total_s += now - self.since
        return self.total_s > before

    def within(self, seconds, now):
        doses = (*self.given, (self.since, now, self.level))
        on_s = sum(level * max(0.0, end - max(begin, now - seconds)) for begin, end, level in doses)
        return on_s * FLOW_ML_MIN / 60


class Life:
    """The chamber, and calls at random, over restarts."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.config = DESCRIBED
        self.memory, self.journal, self.by_hand = ShortMemory(), MemoryJournal(), MemorySetPoints()
        self.parameters = {}
        self.recipes = {}
        self.made = Counter()
        self.refused = Counter()
        self.chamber = None
        self.elapsed = 0.0
        self.volumes = {moved: Volumes() for _, moved in PUMPS.values()}
        self.lowest_ph, self.highest_ms_cm, self.highest_ppm = math.inf, 0.0, 0.0

    async def live(self, calls):
        left = calls
        while left > 0:
            now = min(left, self.dice.randint(50, 400))
            await self.run(now)
            left -= now
            await self.edit()

    async def edit(self):
        """Another valid configuration of the same chamber, for the next start."""
        self.made["edit"] += 1
        chosen = self.dice.sample(sorted(EDITED), self.dice.randint(0, 4))
        edits = {name: self.between(*EDITED[name]) for name in chosen}
        loop = LoopOptions(band=self.dice.random() * 0.3, most_ml=self.dice.uniform(1, 100))
        control = {variable: loop for variable in (ACIDITY, CONDUCTIVITY) if self.dice.random() < 0.3}
        config = structs.replace(DESCRIBED, interlock=InterlockOptions(**edits))
        config = structs.replace(config, control=control)
        try:
            await asyncio.to_thread(check_config, config)
        except ConfigError:
            self.refused["edit"] += 1
        else:
            self.config = config

    def between(self, low, high):
        return self.dice.randint(low, high) if isinstance(low, int) else self.dice.uniform(low, high)

    async def run(self, calls):
        """Start growd, make calls, and end."""
        async with contextlib.AsyncExitStack() as stack:
            rig = await stack.enter_async_context(rigged(self.config, self.memory, time=START + self.elapsed))
            self.rig, self.bus = rig, rig.bus
            self.begin_chamber()
            parts = self.recipes_and_mqtt(rig.config.chambers())
            await stack.enter_async_context(in_tasks(*parts))
            await self.set_kept_parameters()
            tasks = set()
            for _ in range(calls):
                tasks.add(asyncio.create_task(self.one_call(), name="call"))
                await self.let_pass(self.dice.expovariate(1 / PAUSE_S))
                done = {task for task in tasks if task.done()}
                for task in done:
                    task.result()
                tasks -= done
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.keep_parameters()
        self.elapsed = self.rig.clock.monotonic() - self.origin

    def begin_chamber(self):
        before, self.chamber = self.chamber, self.rig.machine.chamber
        if before is None:
            usual = self.chamber.parameters
            given = {"start_conductivity_ms_cm": 3.0, "surface_m3_s": 0.0, "dosing_ml_min": FLOW_ML_MIN}
            tank = dataclasses.replace(usual.tank, **given)
            self.chamber.parameters = dataclasses.replace(usual, tank=tank)  # from which nothing evaporates
            self.chamber.tank = Tank(tank)
        else:
            self.chamber.take_over(before)
        self.origin = self.rig.clock.monotonic() - self.elapsed
        move = self.chamber.set_actuator

        def seen(name, level, at=None):
            if name in self.volumes:
                moment = self.rig.clock.monotonic() if at is None else at
                self.volumes[name].move(level, moment - self.origin)
            move(name, level, at)

        self.chamber.set_actuator = seen

    def recipes_and_mqtt(self, _chambers):
        chamber = self.rig.chambers.by_environment[ENVIRONMENT].chamber
        library = Library(self.fetch, chamber.reach_of_recipes())
        runner = RecipeRunner(
            self.bus, ENVIRONMENT, library=library, journal=self.journal, set_points=self.by_hand, zone=UTC
        )
        node, clock = self.bus.node("recipe_plans"), self.bus.clock
        RecipeServices(runner, ENVIRONMENT, library, clock, UTC)
        RecipeDesk(node, ENVIRONMENT, library, clock=clock, zone=UTC, running=lambda: runner.active)
        self.client = self.bus.node("http")
        self.commands = Commands(
            self.bus,
            self.bus.node("mqtt/bridge"),
            TopicNames("growd", "device"),
            [ENVIRONMENT],
            recipes=self.known_recipes,
            holds=list,
            refused=lambda *_: self.refused.update(["mqtt"]),
            remarked=lambda *_: None,
            changed=lambda: None,
        )
        return runner, self.commands

    async def fetch(self, recipe_id):
        return self.recipes[recipe_id]

    async def known_recipes(self):
        return self.recipes.keys()

    def keep_parameters(self):
        for name in self.bus.parameters.names():
            declared = self.bus.parameters.declared(name)
            if declared is not None and not declared.read_only:
                self.parameters[name] = declared.value

    async def set_kept_parameters(self):
        for name, value in self.parameters.items():
            with contextlib.suppress(BusError):
                await self.bus.parameters.set(name, value)

    # calls

    async def one_call(self):
        kinds = [self.topic, self.topic, self.topic, self.mqtt, self.parameter, self.service, self.recipe]
        call = self.dice.choice(kinds)
        self.made[call.__name__] += 1
        try:
            await call()
        except (BusError, LookupError):
            self.refused[call.__name__] += 1

    def variable(self):
        """A variable, more often one that can do harm."""
        if self.dice.random() < 0.2:
            return self.dice.choice(sorted(VARIABLES))
        return self.dice.choices([*HARMFUL], [*HARMFUL.values()])[0]

    def value(self, variable, kind):
        if self.dice.random() < 0.15:
            return None
        known = VARIABLES[variable]
        if variable == "water_circulation" and self.dice.random() < 0.8:
            return 1.0  # doses need moving water
        if kind == "commanded":
            return self.dice.choice([-1.0, 0.0, 0.5, 1.0, 1.0])
        usual = {ACIDITY: (4.5, 7.0), CONDUCTIVITY: (1.0, 4.0), "air_carbon_dioxide": (0.0, 8_000.0)}
        return self.dice.uniform(*usual.get(variable, (known.minimum, known.maximum)))

    async def topic(self):
        kind, variable = self.dice.choice(["desired", "commanded"]), self.variable()
        name = f"{ENVIRONMENT}/{kind}/{variable}"
        message = self.client.publish_arguments(name, [self.value(variable, kind)])
        await self.bus.topics.get(name).answer(message, "anna")

    async def mqtt(self):
        kind, variable = self.dice.choice(["desired", "commanded"]), self.variable()
        value = self.value(variable, kind)
        body = b"null" if value is None else repr(value).encode()
        self.commands.take(f"growd/device/{ENVIRONMENT}/{kind}/{variable}/set", body, is_retained=False)

    async def parameter(self):
        names = [name for name in self.bus.parameters.names() if self.bus.parameters.declared(name)]
        field = self.bus.parameters.declared(name := self.dice.choice(names)).field
        await self.bus.parameters.set(name, self.of_field(field))

    async def service(self):
        name = self.dice.choice([each for each in self.bus.services.names() if "recipe" not in each])
        service = self.bus.services.get(name)
        given = {field.name: self.of_field(field) for field in service.arguments}
        await service.call(given, "anna")
        if "calibrate" in name:
            for chip in self.rig.machine.chips.values():
                if chip.name in {"ezo_ph", "ezo_ec"}:
                    chip.correction = 0.0  # the probe was in the solution

    def of_field(self, field):
        if field.kind is Kind.BOOL:
            return self.dice.random() < 0.5
        if field.kind in {Kind.FLOAT64, Kind.INT64}:
            low = 0.0 if field.minimum is None else field.minimum
            high = low + 1_000.0 if field.maximum is None else field.maximum
            value = self.dice.choice([low, high, self.dice.uniform(low, high), self.dice.uniform(0, 10)])
            return int(value) if field.kind is Kind.INT64 else value
        return "" if field.kind is Kind.STRING else None

    async def recipe(self):
        action = self.dice.choice(["start", "start", "stop", "pause", "resume", "check"])
        arguments = {}
        if action in {"start", "check"}:
            recipe_id = f"recipe {self.dice.randint(0, 20)}"
            self.recipes[recipe_id] = {"_id": recipe_id, "format": "simple", "operations": self.operations()}
            arguments = {"recipe_id": recipe_id}
        answer = await self.bus.services.get(f"{ENVIRONMENT}/{action}_recipe").call(arguments, "anna")
        self.refused["recipe"] += not answer["success"]

    def operations(self):
        times = sorted(self.dice.uniform(0, 7_200) for _ in range(self.dice.randint(1, 6)))
        found = []
        for time in times:
            variable = self.variable()
            found.append([time, variable, self.value(variable, "desired") or 0.0])
        return found

    # what must hold

    async def let_pass(self, seconds):
        while seconds > 0:
            step = min(seconds, 10.0)
            await self.rig.clock.advance(step)
            self.elapsed = self.rig.clock.monotonic() - self.origin  # drivers wait, too
            seconds -= step
            self.look()

    def look(self):
        water, air, limits = self.chamber.water(), self.chamber.air(), self.config.interlock
        self.lowest_ph = min(self.lowest_ph, water.potential_hydrogen)
        self.highest_ms_cm = max(self.highest_ms_cm, water.conductivity_ms_cm)
        self.highest_ppm = max(self.highest_ppm, air.carbon_dioxide_ppm)
        assert water.potential_hydrogen >= LEAST_PH, self.made
        assert water.conductivity_ms_cm <= MOST_MS_CM, self.made
        assert air.carbon_dioxide_ppm <= 5_000.0 + BEYOND_CEILING_PPM, self.made
        for name, volumes in self.volumes.items():
            if not volumes.has_given(self.elapsed):
                continue  # an edit may have made a limit smaller than what is given
            for span, limit in ((HOUR_S, limits.dosing_ml_per_hour), (DAY_S, limits.dosing_ml_per_day)):
                assert volumes.within(span, self.elapsed) <= limit + BEYOND_ML, (name, span, self.made)


async def lived(seed, calls):
    life = Life(seed)
    await life.live(calls)
    assert all(life.made[kind] > calls / 100 for kind in ("topic", "mqtt", "parameter", "service", "recipe"))
    return life


@pytest.mark.timeout(900)
async def test_random_calls_do_no_harm():
    await lived(seed=1, calls=100)


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_a_thousand_random_calls_reach_each_pump():
    life = await lived(seed=1, calls=1_000)
    assert all(volumes.given for volumes in life.volumes.values()), "each pump has worked"


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 5))
async def test_other_random_calls_do_no_harm(seed):
    await lived(seed, calls=1_000)
