"""Loops of temperature, humidity and water in the simulated chamber, with controllers as configured."""

import itertools

import pytest
from climate_loop import ENVIRONMENT, ClimateLoop, climate_config, output

from growd.config import Light
from growd.config.loops import LoopOptions
from growd.control.loop_laws import DRIFTS_S, TURN_S, DosePlan, Hysteresis
from growd.loops import LOOPS
from growd.variables import (
    ACIDITY,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    FAN,
    HUMIDITY,
    ROOM_HUMIDITY,
    ROOM_TEMPERATURE,
    TEMPERATURE,
    WATER_LEVEL,
)
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.tank import TankParameters

pytestmark = pytest.mark.long

HEATER = output("air_heater", TEMPERATURE)
COOLER = output("air_cooler", TEMPERATURE, lowers=True)
EXHAUST = output(FAN, CARBON_DIOXIDE, TEMPERATURE, HUMIDITY, lowers=True)
HUMIDIFIER = output("air_humidifier", HUMIDITY)
PUMP = {"flow_ml_min": 30.0}
NUTRIENTS = (output("nutrient_a", CONDUCTIVITY, **PUMP), output("nutrient_b", CONDUCTIVITY, **PUMP))
BASE = output("nutrient_ph_up", ACIDITY, **PUMP)
ACID = output("nutrient_ph_down", ACIDITY, lowers=True, **PUMP)


async def course(loop, variable, seconds, step=5):
    """The true values of the next seconds."""
    values = []
    for _ in range(0, seconds, step):
        await loop.clock.advance(step)
        values.append(loop.true(variable))
    return values


def mean(values):
    return sum(values) / len(values)


async def test_a_heater_holds_the_temperature():
    loop = ClimateLoop(climate_config([TEMPERATURE], [HEATER]))
    async with loop.running():
        loop.want(TEMPERATURE, 26.0)
        values = await course(loop, TEMPERATURE, 3_600)
    assert max(values) < 27.5
    assert mean(values[-360:]) == pytest.approx(26.0, abs=0.2)
    assert values[-360:] == pytest.approx([26.0] * 360, abs=1.3)  # a dose of 4 s is 1.3 K of air


@pytest.mark.parametrize("lamps", [pytest.param(0.0, marks=pytest.mark.nightly), 1.0])
async def test_a_heater_and_a_cooler_do_not_alternate(lamps):
    loop = ClimateLoop(climate_config([TEMPERATURE], [HEATER, COOLER]))
    async with loop.running():
        loop.light(lamps)
        loop.want(TEMPERATURE, 24.0)
        await loop.clock.advance(3_600)
        before = {name: loop.on_s(name) for name in loop.levels}
        await loop.clock.advance(3_600)
        ran = {name: loop.on_s(name) - before[name] for name in loop.levels}
    idle, busy = ("air_cooler", "air_heater") if lamps == 0 else ("air_heater", "air_cooler")
    assert ran[busy] > 100
    assert ran[idle] == 0


async def test_night_after_a_day_of_cooling_is_heated():
    loop = ClimateLoop(climate_config([TEMPERATURE], [HEATER, COOLER]))
    async with loop.running():
        loop.light(1.0)
        loop.want(TEMPERATURE, 24.0)
        await loop.clock.advance(3_600)
        loop.light(0.0)
        await loop.clock.advance(1_800)
        assert mean(await course(loop, TEMPERATURE, 1_800)) == pytest.approx(24.0, abs=0.3)


async def test_the_gains_of_the_night_hold_while_the_lamp_is_dark():
    options = LoopOptions(kp=0.2, ti_s=1e5, td_s=0, night_kp=0.05)
    config = climate_config(
        [TEMPERATURE], [HEATER], light=Light(enabled=True), control={TEMPERATURE: options}
    )
    loop = ClimateLoop(config)
    async with loop.running():
        loop.holds["air_heater"].set(True)
        loop.want(TEMPERATURE, 24.0)
        loop.light(0.0)
        await loop.clock.advance(60)
        by_night = loop.command(TEMPERATURE) / (24.0 - loop.measured(TEMPERATURE))
        loop.want(TEMPERATURE, None)  # so that the change of gains leaves nothing in the integral
        loop.light(0.01)
        await loop.clock.advance(60)
        loop.want(TEMPERATURE, 24.0)
        await loop.clock.advance(2)
        by_day = loop.command(TEMPERATURE) / (24.0 - loop.measured(TEMPERATURE))
    assert by_night == pytest.approx(0.05, rel=0.1)
    assert by_day == pytest.approx(0.2, rel=0.1)


async def test_the_heat_of_the_lamps_is_fed_forward():
    peaks = []
    for feed_forward in (0.0, 0.25):
        options = LoopOptions(feed_forward=feed_forward)
        config = climate_config(
            [TEMPERATURE], [HEATER], light=Light(enabled=True), control={TEMPERATURE: options}
        )
        loop = ClimateLoop(config)
        async with loop.running():
            loop.want(TEMPERATURE, 28.0)
            await loop.clock.advance(3_600)
            loop.light(0.7)
            peaks.append(mean(await course(loop, TEMPERATURE, 600)))
    assert abs(peaks[1] - 28.0) < abs(peaks[0] - 28.0)


async def test_a_fan_for_three_variables_follows_the_largest_demand():
    config = climate_config([CARBON_DIOXIDE, TEMPERATURE, HUMIDITY], [EXHAUST, HUMIDIFIER])
    loop = ClimateLoop(config)
    hand = loop.bus.node("hand")
    async with loop.running():
        loop.want(HUMIDITY, 30.0)  # far below
        loop.want(TEMPERATURE, 40.0)  # far above: temperature asks for nothing
        await loop.clock.advance(300)
        assert loop.command(TEMPERATURE) == 0.0
        assert loop.command(HUMIDITY) < -0.5
        assert loop.levels[FAN] == 1.0
        loop.want(FAN, 0.0)
        await loop.clock.advance(10)
        assert loop.levels[FAN] == 0.0
        hand.publisher(f"{ENVIRONMENT}/commanded/{FAN}").publish(1.0)
        await loop.clock.advance(10)
        assert loop.levels[FAN] == 1.0


@pytest.mark.parametrize(
    ("variable", "wanted", "room", "lamps", "runs"),
    [
        (TEMPERATURE, 17.0, {"ambient_temperature_degc": 20.0}, 1.0, True),
        (TEMPERATURE, 17.0, {"ambient_temperature_degc": 30.0}, 0.0, False),
        (HUMIDITY, 25.0, {"ambient_humidity_percent": 30.0}, 0.0, True),
        (HUMIDITY, 25.0, {"ambient_humidity_percent": 95.0}, 0.0, False),
    ],
)
async def test_a_fan_does_not_work_with_air_that_is_warmer_or_moister(variable, wanted, room, lamps, runs):
    measured = [TEMPERATURE, HUMIDITY, ROOM_TEMPERATURE, ROOM_HUMIDITY]
    loop = ClimateLoop(climate_config(measured, [EXHAUST]), ChamberParameters(**room))
    async with loop.running():
        loop.light(lamps)
        loop.want(variable, wanted)
        await loop.clock.advance(1_800)
        assert (loop.on_s(FAN) > 0) is runs


async def test_air_that_the_fan_dries_for_another_loop_is_humidified():
    """The fan runs all the time for the temperature, so the air is too dry, though it once was too humid."""
    loop = ClimateLoop(
        climate_config([TEMPERATURE, HUMIDITY], [EXHAUST, HUMIDIFIER]),
        ChamberParameters(ambient_humidity_percent=30.0),
    )
    async with loop.running():
        loop.light(1.0)
        loop.want(HUMIDITY, 50.0)
        await loop.clock.advance(1_800)
        assert loop.command(HUMIDITY) < 0
        loop.want(TEMPERATURE, 15.0)
        loop.want(HUMIDITY, 70.0)
        await loop.clock.advance(1_800)
        assert loop.on_s(FAN) > 1_500
        assert loop.command(HUMIDITY) > 0.3
        assert loop.true(HUMIDITY) > 60


async def test_a_cooler_works_alone_where_the_fan_beside_it_cannot_help():
    parameters = ChamberParameters(ambient_temperature_degc=30.0)
    loop = ClimateLoop(climate_config([TEMPERATURE, ROOM_TEMPERATURE], [COOLER, EXHAUST]), parameters)
    async with loop.running():
        loop.want(TEMPERATURE, 24.0)
        await loop.clock.advance(1_800)
        assert loop.on_s("air_cooler") > 300
        assert loop.on_s(FAN) < 30  # until the air was cooler than the room


async def test_a_dimmed_fan_gets_levels_instead_of_doses():
    fan = output("auxiliary_1", HUMIDITY, lowers=True, kind="pwm")
    loop = ClimateLoop(climate_config([HUMIDITY], [fan]))
    async with loop.running():
        loop.want(HUMIDITY, 38.0)
        await loop.clock.advance(30)
        commands = {loop.command("auxiliary_1")}
        await loop.clock.advance(5)
        commands.add(loop.command("auxiliary_1"))
    assert any(0 < command < 1 for command in commands)


# --- Water


def tank(**start):
    return ChamberParameters(tank=TankParameters(**{f"start_{name}": value for name, value in start.items()}))


async def doses(loop, name, seconds):
    """Begin and end of each time that an output is on."""
    found, was = [], 0.0
    for _ in range(seconds):
        await loop.clock.advance(1)
        level = loop.levels.get(name, 0.0)
        if level > was:
            found.append([loop.clock.monotonic(), None])
        elif level < was:
            found[-1][1] = loop.clock.monotonic()
        was = level
    return found


async def test_ph_falls_in_doses_with_time_to_mix_between_them():
    loop = ClimateLoop(climate_config([ACIDITY], [BASE, ACID]), tank(potential_hydrogen=6.6))
    loop.chamber.set_actuator("water_pump", 1.0)
    async with loop.running():
        loop.want(ACIDITY, 5.8)
        given = await doses(loop, "nutrient_ph_down", 2 * 3_600)
        assert loop.true(ACIDITY) == pytest.approx(5.8, abs=0.15)
        assert loop.on_s("nutrient_ph_up") == 0
    assert len(given) > 1
    pauses = [begin - end for (_, end), (begin, _) in itertools.pairwise(given)]
    assert min(pauses) >= 305


async def test_a_dose_that_was_held_is_given_later_and_does_not_wait_for_mixing():
    loop = ClimateLoop(climate_config([ACIDITY], [ACID]), tank(potential_hydrogen=6.8))
    loop.chamber.set_actuator("water_pump", 1.0)
    async with loop.running():
        loop.holds["nutrient_ph_down"].set(True)
        loop.want(ACIDITY, 5.8)
        await loop.clock.advance(600)
        assert loop.on_s("nutrient_ph_down") == 0
        loop.holds["nutrient_ph_down"].set(False)
        await loop.clock.advance(60)
        assert 0 < loop.on_s("nutrient_ph_down") < 60


async def test_a_sensor_that_fails_ends_the_dose():
    loop = ClimateLoop(climate_config([CONDUCTIVITY], [NUTRIENTS[0]]), tank(conductivity_ms_cm=1.0))
    async with loop.running():
        loop.want(CONDUCTIVITY, 2.0)
        while not loop.levels.get("nutrient_a"):
            await loop.clock.advance(1)
        loop.failed.add(CONDUCTIVITY)
        await loop.clock.advance(6)
        given = loop.on_s("nutrient_a")
        assert 0 < given < 5
        loop.failed.clear()
        await loop.clock.advance(120)
        assert loop.on_s("nutrient_a") == given  # it has to mix first


@pytest.mark.parametrize("ml_per_unit_litre", [None, 0.5])
async def test_soft_water_does_not_get_too_much_acid_at_once(ml_per_unit_litre):
    """Soft water takes 0.15 ml for each litre and unit here, so 0.5 ml is three times too much."""
    options = LoopOptions(lowering_ml_per_unit_litre=ml_per_unit_litre)
    loop = ClimateLoop(
        climate_config([ACIDITY], [BASE, ACID], control={ACIDITY: options}), tank(potential_hydrogen=6.0)
    )
    async with loop.running():
        loop.chamber.set_actuator("water_pump", 1.0)
        loop.want(ACIDITY, 5.0)
        values = await course(loop, ACIDITY, 2 * 3_600, step=60)
        assert loop.on_s("nutrient_ph_up") == 0
    assert min(values) > 4.7
    assert values[-1] == pytest.approx(5.0, abs=0.3)


def test_acid_and_base_do_not_take_turns():
    plan, bands = DosePlan(), (0.1, 0.3)
    plan.begin(0.0, -1, 10.0)
    assert plan.is_due(600.0, 0.5, bands) == 0  # too much acid: base waits
    assert plan.is_due(10.0 + TURN_S, 0.25, bands) == 0  # and does not come for less than its band
    assert plan.is_due(10.0 + TURN_S, 0.5, bands) == 1
    plan.begin(10.0 + TURN_S, 1, 10.0)
    assert plan.until_end(10.0 + TURN_S) == 5.0  # half, since the last dose was too much
    assert plan.is_due(5_000.0, 0.5, bands) == 1  # the same direction goes on
    assert plan.is_due(5_000.0, -0.5, bands) == 0


def test_doses_keep_their_size_while_the_value_drifts_both_ways_for_days():
    plan, now = DosePlan(), 0.0
    for direction in (1, -1) * 5:
        now += 2 * DRIFTS_S
        assert plan.is_due(now, 0.4 * direction, (0.1, 0.3)) == direction
        plan.begin(now, direction, 10.0)
        assert plan.until_end(now) == 10.0


def test_a_new_set_point_may_take_the_other_direction_at_once():
    plan = DosePlan()
    plan.begin(0.0, -1, 10.0)
    plan.step()
    assert plan.is_due(400.0, 0.2, (0.1, 0.3)) == 1
    plan.begin(400.0, 1, 10.0)
    assert plan.until_end(400.0) == 10.0


async def test_nutrients_reach_their_conductivity_and_water_lowers_it():
    water = output("water_fill", CONDUCTIVITY, lowers=True, flow_ml_min=2_000.0)
    config = climate_config([CONDUCTIVITY], [*NUTRIENTS, water])
    loop = ClimateLoop(config, tank(conductivity_ms_cm=1.0, l=10.0))
    loop.chamber.set_actuator("water_pump", 1.0)
    async with loop.running():
        loop.want(CONDUCTIVITY, 1.8)
        await loop.clock.advance(2 * 3_600)
        assert loop.true(CONDUCTIVITY) == pytest.approx(1.8, abs=0.1)
        loop.want(CONDUCTIVITY, 1.4)
        await loop.clock.advance(2 * 3_600)
        assert loop.true(CONDUCTIVITY) == pytest.approx(1.4, abs=0.1)
        assert loop.on_s("nutrient_a") == loop.on_s("nutrient_b") > 0


@pytest.mark.parametrize(("overshoot_goes", "demand"), [(False, -1.0), (True, 0.0)])
def test_a_tank_that_its_own_filling_overfilled_is_drained(overshoot_goes, demand):
    law = Hysteresis(can_lower=True, overshoot_goes=overshoot_goes)
    for now, level in enumerate((60.0, 79.0, 84.0)):
        assert law.update(80.0, 80.0, level, (5.0, 5.0), 10.0 * now) == (1.0 if level < 80 else 0.0)
    assert law.update(80.0, 80.0, 92.0, (5.0, 5.0), 60.0) == demand
    assert law.update(80.0, 80.0, 92.0, (5.0, 5.0), 6_000.0) == demand
    assert not LOOPS[WATER_LEVEL].overshoot_goes


async def test_a_set_point_in_ml_per_hour_is_given_in_doses():
    loop = ClimateLoop(climate_config([CONDUCTIVITY], [NUTRIENTS[0]]))
    async with loop.running():
        loop.want("nutrient_a", 36.0)  # of 1800 ml/h
        await loop.clock.advance(3_600)
        assert loop.on_s("nutrient_a") * 0.5 == pytest.approx(36.0, rel=0.1)
        loop.want("nutrient_a", 1_800.0)
        await loop.clock.advance(10)
        assert loop.levels["nutrient_a"] == 1.0
