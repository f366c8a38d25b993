"""Every output has the interlocks of its class, by whatever name it is commanded."""

import itertools

import pytest

from growd.config import Chamber, Config, Output, Sensor
from growd.control.interlocks.base import SensorReadings
from growd.output_roles import ROLES, OutputClass, Role
from growd.variables import FAN, SHARES, VALVE, VARIABLES, Variable
from growd.wiring.interlocks import InterlockInputs
from growd.wiring.output_interlocks import OutputInterlocks
from growd.wiring.pumps import pumps_of

SOIL = "soil_temperature"
REDOX = "water_oxidation_reduction_potential"
NEW = {
    "soil_heater": Role("heating mat", OutputClass.HEATER, SOIL, needs=SOIL, must_be_safe_off=True),
    "soil_cooler": Role("cooling mat", OutputClass.COOLER, SOIL, raises=False, must_be_safe_off=True),
    "nutrient_d": Role("pump for D", OutputClass.DOSING, REDOX, needs=REDOX, must_be_safe_off=True),
}
ALL = ROLES | NEW
ACTIVE = [name for name, role in ALL.items() if role.drives]
OPPOSED = [
    (one, other)
    for one, other in itertools.permutations(ACTIVE, 2)
    if ALL[one].drives == ALL[other].drives and ALL[one].raises and not ALL[other].raises
]
TOGETHER = {(VALVE, FAN)}  # fresh air lowers CO2 without harm


@pytest.fixture(autouse=True)
def _new_roles(monkeypatch):
    """Roles that growd does not have, of a variable that it does not have."""
    monkeypatch.setitem(VARIABLES, SOIL, Variable(SOIL, "degC", -5, 60))
    for name, role in NEW.items():
        monkeypatch.setitem(ROLES, name, role)
        monkeypatch.setitem(VARIABLES, name, Variable(name, "fraction", 0, 1))


def named(variable, name="it", **options):
    return Output(name=name, variable=variable, pin=17, flow_ml_min=60.0, **options)


def auxiliary(like, number=1):
    """An auxiliary output that does what a role does."""
    role = ROLES[like]
    direction = "raises" if role.raises else "lowers"
    return named(f"auxiliary_{number}", f"it_{number}", drives=(role.drives,), direction=direction)


def chamber_of(*outputs):
    measured = ("water_level_low", *{variable for each in outputs for variable in each.effects})
    sensors = tuple(Sensor(name=name, kind="topic", variable=name) for name in measured)
    return Chamber(Config(sensor=sensors, output=outputs), "environment_1")


def interlocks_of(*outputs):
    """The names of the interlocks that hold each own variable."""
    chamber = chamber_of(*outputs)
    readings, pumps = SensorReadings(dict.fromkeys(chamber.measured, 30.0)), pumps_of(chamber, lambda: 0.0)
    made = OutputInterlocks(InterlockInputs(chamber, readings, pumps))
    held = {each.own_variable: set() for each in outputs}
    for interlock in (*made.first(), *made.others()):
        for variable in interlock.holds:
            held[variable].add(interlock.name)
    return held


def lacking(output):
    """What an output of its class must have, and has not."""
    of, (driven, direction) = output.role.output_class, output.first_moved
    follows = f"{driven}_no_{'rise' if direction == 'raises' else 'fall'}"
    place = driven.removesuffix("temperature").removeprefix("air_")
    own = {
        OutputClass.HEATER: {"still_rising", "over_temperature", follows},
        OutputClass.COOLER: {"minimum_off"},
        OutputClass.DEHUMIDIFIER: {"minimum_off"},
        OutputClass.HUMIDIFIER: {follows},
        OutputClass.DOSING: {"ml_per_hour", "ml_per_day", "mixing_pause", "water_too_low", follows},
        OutputClass.PUMP: {"on_too_long"},
    }.get(of, set())
    if driven in ("water_temperature", "soil_moisture"):
        own = own | {"water_too_low"}
    renamed = {
        "still_rising": f"{driven}_still_rising",
        "over_temperature": f"{place}heater_over_temperature",
    }
    of_one = ("minimum_off", "ml_per_hour", "ml_per_day", "on_too_long")
    renamed |= {name: f"{output.name}_{name}" for name in of_one}
    return {renamed.get(name, name) for name in own} - interlocks_of(output)[output.own_variable]


def test_a_role_that_drives_nothing_is_one_that_does_no_harm_without_an_interlock():
    auxiliary_outputs = {f"auxiliary_{number}" for number in range(1, 9)}  # their conditions are the grower's
    passive = {name for name, role in ROLES.items() if not role.drives}
    assert passive == {"air_circulation", "water_circulation"} | auxiliary_outputs


@pytest.mark.parametrize("variable", ACTIVE)
def test_every_role_has_the_interlocks_of_its_class(variable):
    assert lacking(named(variable)) == set()


@pytest.mark.parametrize("like", ACTIVE)
def test_an_auxiliary_output_has_the_role_of_what_it_drives(like):
    own, expected = auxiliary(like), named(like)
    assert lacking(own) == set()
    assert own.is_a(expected.role.output_class)
    assert own.role.must_be_safe_off is expected.role.must_be_safe_off
    assert chamber_of(own).needed().keys() == chamber_of(expected).needed().keys()


@pytest.mark.parametrize(("one", "other"), OPPOSED)
def test_what_works_against_each_other_is_never_on_together(one, other):
    for pair in (
        (named(one, "a"), named(other, "b")),
        (auxiliary(one), named(other)),
        (named(one), auxiliary(other)),
        (auxiliary(one, 1), auxiliary(other, 2)),
    ):
        raising, lowering = (each.own_variable for each in pair)
        held = interlocks_of(*pair)
        excluding = {f"{raising}_or_{lowering}", "mixing_pause"} & held[raising] & held[lowering]
        assert bool(excluding) is ((one, other) not in TOGETHER)


def test_a_heater_of_something_else_than_the_first_variable_that_it_drives_has_the_limit_of_heat():
    fogger = named("air_humidifier", drives=("air_humidity", "air_temperature"))
    burner = named("auxiliary_1", drives=("air_carbon_dioxide", "air_temperature"))
    aerator = named("auxiliary_2", drives=("water_dissolved_oxygen", "water_temperature"))
    room = named("auxiliary_3", drives=("room_temperature",))
    assert "heater_over_temperature" in interlocks_of(fogger)["air_humidifier"]
    assert "heater_over_temperature" in interlocks_of(burner)["auxiliary_1"]
    assert {"water_heater_over_temperature", "water_temperature_no_rise"} <= interlocks_of(aerator)[
        "auxiliary_2"
    ]
    assert {"room_heater_over_temperature", "room_temperature_still_rising"} <= interlocks_of(room)[
        "auxiliary_3"
    ]


def test_an_auxiliary_output_that_drives_nothing_has_no_interlock_of_a_class():
    assert interlocks_of(named("auxiliary_1")) == {"auxiliary_1": set()}
    assert {name for name in SHARES if name.startswith("auxiliary_")} <= ROLES.keys()
