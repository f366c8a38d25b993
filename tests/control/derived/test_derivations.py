"""The node that calculates variables: values, qualities, sums, restarts."""

from datetime import UTC, datetime

import pytest

from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.config.lamp_light import ChannelLight, LampLight
from growd.control.derived.node import SAVE_S, Derivations
from support.bus_rig import BusRig
from support.memory import ShortMemory
from support.running import running

DEGC, PERCENT, LUX, PAR = "air_temperature", "air_humidity", "light_illuminance", "light_ppfd"
OF_AIR = ("air_vapour_pressure_deficit", "air_dew_point", "air_absolute_humidity")
OF_LIGHT = ("light_daily_integral", "light_daily_integral_expected", "light_photoperiod")
DEGREE_DAYS = "air_growing_degree_days"
MORNING = datetime(2026, 6, 1, 6, tzinfo=UTC).timestamp()
LAMP = LampLight({"white": ChannelLight(1.0, 50.0)})


class Rig(BusRig):
    def __init__(self, sensed=(DEGC, PERCENT, PAR), time=MORNING, memory=None):
        derived = [*OF_AIR, DEGREE_DAYS, *OF_LIGHT, *(() if PAR in sensed else (PAR,))]
        super().__init__(*sensed, derived=derived, time=time)
        self.memory = memory or ShortMemory()
        self.elsewhere = 0.0
        self.derivations = Derivations(
            self.bus, "e", derived, memory=self.memory, stale_after_s=lambda _: 30.0, lamp=LAMP,
            daylight_lux=lambda: self.elsewhere, zone=UTC,
        )  # fmt: skip
        sensor = self.bus.node("sensor")
        self._sensors = {name: sensor.publisher(f"e/measured/{name}") for name in sensed}
        self._lamp = sensor.publisher("e/light_channels")
        self._runner = self.bus.node("runner")
        start = Field("current_recipe_start", Kind.FLOAT64, default=0.0)
        self.start = self._runner.declare("e/current_recipe_start", start, read_only=True)

    async def give(self, quality=Quality.OK, **values):
        for name, value in values.items():
            self._sensors[name].publish(value, quality)
        await self.clock.settle()

    async def steady(self, seconds, **values):
        """Measure the same each 10 s, from now on."""
        for _ in range(round(seconds / 10)):
            await self.give(**values)
            await self.clock.advance(10)

    def lit(self, **levels):
        self._lamp.publish({"x": levels.get("white", 0.0), "y": 0.0, "z": 0.0})

    def want(self, variable, value):
        self._runner.publisher(f"e/desired/{variable}").publish(value)

    def last(self, variable):
        return super().last(f"measured/{variable}")

    def value(self, variable):
        last = self.last(variable)
        assert last.quality is Quality.OK
        return last.value

    @property
    def sums(self):
        return self.derivations.node.details()["sums"]


@pytest.fixture
async def rig():
    rig = Rig()
    async with running(rig.clock, rig.derivations):
        yield rig


async def test_a_value_is_calculated_with_the_inputs_that_it_has_and_sums_at_multiples_of_their_period():
    rig = Rig((DEGC, PERCENT, LUX))
    rig.clock.stall(3.0)
    async with running(rig.clock, rig.derivations):
        await rig.give(air_temperature=25.0, air_humidity=60.0, light_illuminance=5_000.0)
        before = {name: rig.last(name).number for name in (*OF_AIR, PAR)}
        await rig.give(light_illuminance=6_000.0)
        assert {name: rig.last(name).number for name in (*OF_AIR, PAR)} == before | {PAR: 2}
        await rig.give(air_humidity=61.0)
        assert {name: rig.last(name).number for name in before} == dict.fromkeys(before, 2)
        await rig.clock.advance(7.1)
        assert rig.last("light_photoperiod").number == 1


async def test_the_air_has_a_deficit_a_dew_point_and_an_absolute_humidity_once_both_values_are_there(rig):
    await rig.give(air_temperature=25.0)
    await rig.clock.advance(10)
    assert rig.last("air_dew_point") is None
    await rig.give(air_temperature=25.0, air_humidity=60.0)
    assert rig.value("air_vapour_pressure_deficit") == pytest.approx(1.267, abs=0.005)
    assert rig.value("air_dew_point") == pytest.approx(16.7, abs=0.1)
    assert rig.value("air_absolute_humidity") == pytest.approx(13.8, abs=0.1)
    before = rig.last("air_dew_point").number
    await rig.give(air_temperature=26.0, air_humidity=50.0)
    assert rig.last("air_dew_point").number == before + 1


async def test_a_value_has_the_worse_quality_of_its_inputs(rig):
    await rig.give(air_temperature=25.0, air_humidity=60.0)
    for quality in (Quality.STALE, Quality.FAULT, Quality.WARM_UP):
        await rig.give(quality, air_humidity=None)
        for variable in OF_AIR:
            assert (rig.last(variable).value, rig.last(variable).quality) == (None, quality)
    await rig.give(Quality.FAULT, air_temperature=None)
    assert rig.last("air_dew_point").quality is Quality.FAULT
    await rig.give(air_temperature=25.0, air_humidity=60.0)
    assert rig.last("air_dew_point").quality is Quality.OK


async def test_a_filter_that_went_silent_makes_no_value_old(rig):
    await rig.give(air_temperature=25.0, air_humidity=60.0)
    for _ in range(4):
        await rig.clock.advance(10)
        await rig.give(air_temperature=25.0)  # the humidity is missing
    assert rig.last("air_vapour_pressure_deficit").quality is Quality.STALE


async def test_lux_become_photons_by_the_lit_lamp_and_daylight():
    rig = Rig(sensed=(DEGC, PERCENT, LUX))
    async with running(rig.clock, rig.derivations):
        rig.lit(white=0.5)
        await rig.give(light_illuminance=5_000.0)
        assert rig.value(PAR) == pytest.approx(100.0)
        rig.elsewhere = 2_500.0
        await rig.give(light_illuminance=5_000.0)
        assert rig.value(PAR) == pytest.approx(2_500 / 50 + 2_500 / 54)
        rig.lit()
        await rig.give(light_illuminance=5_400.0)
        assert rig.value(PAR) == pytest.approx(100.0)
        await rig.give(Quality.FAULT, light_illuminance=None)
        assert {rig.last(name).quality for name in (PAR,)} == {Quality.FAULT}


async def test_more_photons_than_there_can_be_are_a_fault():
    rig = Rig(sensed=(DEGC, PERCENT, LUX))
    async with running(rig.clock, rig.derivations):
        rig.derivations._lamp = LampLight(daylight_lux_per_umol=1.0)
        await rig.give(light_illuminance=200_000.0)
        assert rig.last(PAR).quality is Quality.FAULT


# sums


async def test_the_light_of_a_day_is_the_integral_of_the_photons(rig):
    await rig.steady(3_600, light_ppfd=200.0)
    assert rig.value("light_daily_integral") == pytest.approx(0.72, abs=0.003)
    assert rig.value("light_photoperiod") == pytest.approx(1.0, abs=0.005)
    await rig.steady(3_600, light_ppfd=1.0)  # less than day is for plants
    assert rig.value("light_photoperiod") == pytest.approx(1.0, abs=0.005)
    assert rig.sums["light_missing_s"] == 6 * 3_600  # before growd ran for the first time


async def test_a_day_begins_at_local_midnight(rig):
    await rig.clock.advance(17 * 3_600 + 1_800)  # 23:30
    await rig.steady(3_600, light_ppfd=500.0)
    assert rig.value("light_daily_integral") == pytest.approx(0.9, abs=0.01)
    assert rig.value("light_photoperiod") == pytest.approx(0.5, abs=0.01)
    assert rig.sums["light_missing_s"] == 0


async def test_light_that_is_not_known_is_missing_and_not_made_up(rig):
    await rig.steady(600, light_ppfd=100.0)
    missing = rig.sums["light_missing_s"]
    await rig.give(Quality.FAULT, light_ppfd=None)
    await rig.clock.advance(1_200)
    assert rig.last("light_daily_integral").quality is Quality.FAULT
    await rig.steady(600, light_ppfd=100.0)
    assert rig.value("light_daily_integral") == pytest.approx(0.12, abs=0.002)
    assert rig.sums["light_missing_s"] == missing + 1_200
    await rig.give(light_ppfd=1_000.0)
    await rig.clock.advance(3_600)  # the sensor is silent: its value counts until it is stale
    await rig.steady(10, light_ppfd=0.0)
    assert rig.value("light_daily_integral") == pytest.approx(0.12 + 0.03, abs=0.004)


@pytest.mark.parametrize(
    ("time", "mol", "missing_s"),
    [(MORNING + 3_600 + 1_800, 0.36 + 0.06, 6 * 3_600 + 1_800), (MORNING + 86_400, 0.06, 6 * 3_600)],
    ids=["the same day", "the next day"],
)
async def test_a_restart_continues_the_day_and_tells_the_gap(rig, time, mol, missing_s):
    await rig.steady(3_600, light_ppfd=100.0)
    await rig.derivations.close()
    later = Rig(memory=rig.memory, time=time)
    async with running(later.clock, later.derivations):
        await later.steady(600, light_ppfd=100.0)
        assert later.value("light_daily_integral") == pytest.approx(mol, abs=0.003)
        assert later.sums["light_missing_s"] == pytest.approx(missing_s, abs=1)


async def test_sums_are_saved_as_time_passes_and_damage_begins_them_anew(rig):
    await rig.steady(SAVE_S + 20, light_ppfd=100.0)
    assert rig.memory.saves == 1
    rig.memory.texts["e/derived"] = '{"light": 3}'
    later = Rig(memory=rig.memory, time=rig.clock.time())
    async with running(later.clock, later.derivations):
        await later.give(light_ppfd=100.0)
        assert later.derivations.light.integral_mol < 0.01


async def test_a_disk_that_fails_stops_no_calculation(rig):
    rig.memory.fails = True
    await rig.steady(2 * SAVE_S, light_ppfd=100.0)
    assert rig.value("light_daily_integral") > 0.05


async def test_degree_days_count_from_the_start_of_a_run(rig):
    await rig.steady(3_600, air_temperature=22.0)
    assert rig.last(DEGREE_DAYS) is None
    rig.start.show(rig.clock.time())
    await rig.steady(2 * 3_600, air_temperature=22.0)
    assert rig.value(DEGREE_DAYS) == pytest.approx(1.0, abs=0.01)
    await rig.steady(3_600, air_temperature=5.0)  # below the base
    assert rig.value(DEGREE_DAYS) == pytest.approx(1.0, abs=0.01)
    rig.start.show(0.0)
    await rig.steady(20, air_temperature=22.0)
    assert rig.last(DEGREE_DAYS).quality is Quality.STALE
    rig.start.show(rig.clock.time())
    await rig.steady(20, air_temperature=22.0)
    assert rig.value(DEGREE_DAYS) == pytest.approx(0.0, abs=0.01)


async def test_degree_days_continue_after_a_restart_of_the_run(rig):
    began = rig.clock.time()
    rig.start.show(began)
    await rig.steady(7_200, air_temperature=22.0)
    await rig.derivations.close()
    later = Rig(memory=rig.memory, time=rig.clock.time() + 900)
    async with running(later.clock, later.derivations):
        await later.steady(60, air_temperature=22.0)  # the runner has not read its run yet
        later.start.show(began)
        await later.steady(7_200, air_temperature=22.0)
        assert later.value(DEGREE_DAYS) == pytest.approx(2.0, abs=0.02)
        assert later.sums["degree_days_missing_s"] == pytest.approx(900, abs=61)


async def test_the_expected_light_follows_the_set_point(rig):
    await rig.steady(3_600, light_ppfd=100.0)
    assert rig.value("light_daily_integral_expected") == pytest.approx(0.36, abs=0.01)  # no set point
    rig.want(PAR, 200.0)
    await rig.steady(70, light_ppfd=100.0)
    assert rig.value("light_daily_integral_expected") == pytest.approx(0.36 + 17 * 0.72, abs=0.03)


async def test_the_expected_light_follows_the_plan_of_the_day(rig):
    def until_ten(variable, wall):
        is_lit = datetime.fromtimestamp(wall, UTC).hour < 10
        return {LUX: 10_000.0 if is_lit else 0.0}.get(variable)

    rig.derivations.outlook_by(until_ten)
    await rig.steady(3_600, light_ppfd=200.0)  # 06:00 to 07:00
    assert rig.value("light_daily_integral_expected") == pytest.approx(4 * 0.72, abs=0.05)
