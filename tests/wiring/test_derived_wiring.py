"""What growd calculates in a chamber, and which set points follow, by its configuration."""

from contextlib import asynccontextmanager
from datetime import UTC

import pytest

from growd.config import Config, Light, LightPlan, Output, Sensor, chambers_of
from growd.config.devices import ChannelOptions
from growd.control.derived.psychrometrics import vapour_pressure_deficit_kpa
from growd.control.planning.humidity import HumidityPlanner
from growd.control.planning.light import LightPlanner
from growd.recipes.interpreter import check
from growd.wiring.derived import derived_of
from support.memory import ShortMemory
from support.rig import rigged
from support.running import in_tasks

AIR, LUX = Sensor(name="air", kind="scd30"), Sensor(name="lux", kind="bh1750", bus=3)
PAR = Sensor(name="par", kind="topic", variable="light_ppfd")
WHITE = Light(channel=(ChannelOptions(name="white", pin=12, lux_per_umol=50.0),), full_scale_lux=20_000.0)
HUMIDIFIER = Output(name="mist", variable="air_humidifier", drives=("air_humidity",), pin=20)
DRIER = Output(
    name="drier", variable="air_dehumidifier", drives=("air_humidity",), direction="lowers", pin=21
)
OF_AIR = {"air_vapour_pressure_deficit", "air_dew_point", "air_absolute_humidity", "air_growing_degree_days"}
OF_LIGHT = {"light_daily_integral", "light_daily_integral_expected", "light_photoperiod"}


@asynccontextmanager
async def derived(config):
    async with rigged(config) as rig:
        found = derived_of(config, rig.bus, ShortMemory(), UTC)
        async with in_tasks(*(node for each in found for node in each.nodes)):
            yield rig, found


@pytest.mark.parametrize(
    ("sensors", "expected"),
    [
        ((AIR,), OF_AIR),
        ((LUX,), OF_LIGHT | {"light_ppfd"}),
        ((PAR,), OF_LIGHT),
        ((LUX, PAR), OF_LIGHT),
        ((AIR, LUX), OF_AIR | OF_LIGHT | {"light_ppfd"}),
        ((), set()),
    ],
)
def test_a_chamber_calculates_what_its_sensors_allow_and_none_measures(sensors, expected):
    (chamber,) = chambers_of(Config(sensor=sensors))
    assert set(chamber.derived) == expected
    assert set(chamber.known) == expected | set(chamber.measured)


@pytest.mark.parametrize(
    ("config", "planners", "judged"),
    [
        (Config(sensor=(AIR, LUX)), [], set()),
        (Config(sensor=(AIR,), light=WHITE), [], set()),
        (Config(sensor=(LUX,), light=WHITE), [LightPlanner], {"light_illuminance", "light_ppfd"}),
        (Config(sensor=(PAR,), light=WHITE), [LightPlanner], {"light_ppfd"}),
        (
            Config(sensor=(AIR,), output=(HUMIDIFIER,)),
            [HumidityPlanner],
            {"air_humidity", "air_vapour_pressure_deficit"},
        ),
    ],
)
async def test_set_points_follow_where_an_output_and_the_inputs_are_there(config, planners, judged):
    async with derived(config) as (rig, found):
        assert [type(each) for part in found for each in part.planners] == planners
        nodes = [rig.bus.find_node(name) for name in rig.bus.node_names()]
        states = [each for node in nodes for each in node.details().get("attainment", ())]
        assert {each["variable"] for each in states} == judged


def test_recipes_may_set_what_is_planned_up_to_what_the_lamp_gives():
    config = Config(sensor=(AIR, LUX), light=WHITE, output=(HUMIDIFIER,), light_plan=LightPlan(end="16:00"))
    operations = [
        [0, "light_daily_integral", 20],
        [0, "light_ppfd", 500],
        [0, "air_vapour_pressure_deficit", 1],
        [60, "light_daily_integral", 0],
    ]
    (chamber,) = chambers_of(config)
    words = [str(each) for each in check({"format": "simple", "operations": operations}, chamber.reach())]
    assert "/operations/0: light_daily_integral can be driven from 0 to 14.4 here, not to 20" in words
    assert "/operations/1: light_ppfd can be driven from 0 to 400 here, not to 500" in words
    assert not any("air_vapour_pressure_deficit" in each for each in words)


async def test_a_set_point_of_ppfd_lights_the_lamp_and_is_measured():
    async with derived(Config(sensor=(LUX,), light=WHITE)) as (rig, _):
        rig.bus.node("client").publish_arguments("environment_1/desired/light_ppfd", [150])
        await rig.clock.advance(120)
        assert rig.last("desired/light_illuminance").node == "environment_1/planners/light_illuminance"
        assert rig.last("measured/light_ppfd").value == pytest.approx(150, rel=0.05)


@pytest.mark.parametrize(("set_point", "expected_mol"), [(5_000, 0.0), (12_000, 2.56)])
async def test_the_expected_light_of_a_switched_lamp_is_its_full_light_or_none(set_point, expected_mol):
    lamp = Light(kind="relay", channel=WHITE.channel, full_scale_lux=20_000.0)
    async with derived(Config(sensor=(LUX,), light=lamp)) as (rig, _):  # at 22:13
        rig.bus.node("client").publish_arguments("environment_1/desired/light_illuminance", [set_point])
        await rig.clock.advance(120)
        expected = rig.last("measured/light_daily_integral_expected").value
        assert expected == pytest.approx(expected_mol, abs=0.1)


async def test_a_deficit_moves_the_outputs_of_humidity():
    async with derived(Config(sensor=(AIR,), output=(HUMIDIFIER, DRIER))) as (rig, _):
        rig.bus.node("client").publish_arguments("environment_1/desired/air_vapour_pressure_deficit", [1.0])
        await rig.clock.until(lambda: rig.last("outputs/drier").value == 1.0, within=1_800)
        assert rig.last("desired/air_humidity").node == "environment_1/planners/air_humidity"
        wanted, degc = rig.last("desired/air_humidity").value, rig.last("measured/air_temperature").value
        assert vapour_pressure_deficit_kpa(degc, wanted) == pytest.approx(1.0, abs=0.05)
        assert rig.last("measured/air_vapour_pressure_deficit").value < 1.0


@pytest.mark.parametrize(
    ("begin", "end", "window"), [("06:00", "22:30", (21_600, 81_000)), ("00:00", "00:00", (0, 0))]
)
def test_the_hours_of_the_lamp_are_times_of_day(begin, end, window):
    assert LightPlan(begin=begin, end=end).window_s == window
