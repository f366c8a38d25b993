"""The self-test of outputs, on simulated hardware: it finds each fault, and leaves all outputs safe."""

import pytest

from growd.config import Chamber, ChannelOptions, Config, InterlockOptions, Light, Output, Sensor, load
from growd.config.conditions import Condition
from growd.config.profiles import profile_path
from growd.output_roles import ROLES
from growd.recipes.circumstances import circumstances
from growd.recipes.status import RECIPE_STATE
from growd.status.status_node import StatusNode
from growd.variables import FAN
from growd_hwsim.fault_files import parse_fault
from growd_hwsim.fault_kinds import ACTUATOR, NETWORK, PIN, kinds_at
from support.memory import ShortMemory
from support.refusals import check_config
from support.rig import rigged

pytestmark = pytest.mark.long

E = "environment_1"
BEGIN, STOP = f"{E}/self_test/begin", f"{E}/self_test/stop"


def probe(channel, variable, highest, **options):
    points = ((0.0, 0.0), (3.0, highest))
    options = {"address": 0x48 + channel // 4, "interval_s": 10.0, "points": points, **options}
    return Sensor(name=variable, kind="ads1115", channel=str(channel % 4), variable=variable, **options)


SENSORS = (
    Sensor(name="air", kind="scd30"),
    Sensor(name="thermometer", kind="ds18b20", interval_s=10.0),
    probe(0, "water_potential_hydrogen", 14.0),
    probe(1, "water_electrical_conductivity", 5.0),
    probe(2, "water_level", 100.0),
    probe(3, "water_dissolved_oxygen", 20.0),
    probe(4, "soil_moisture", 100.0),
)
CLIMATE = load(profile_path("climate"))
CLIMATE_DEVICES = tuple(each.name for each in Chamber(CLIMATE, E).outputs)
LUX = Sensor(name="lux", kind="bh1750", interval_s=1.0)
LAMP = Light(channel=(ChannelOptions(name="white", pin=12),))
NO_LAMP = Light(enabled=False)
LIMITS = InterlockOptions(mixing_pause_s=60.0)
WATCHED = [name for name, role in ROLES.items() if role.drives]
OF_ACTUATORS = {
    # an interlock may find it sooner: a level that does not follow
    "without_effect": {("failed", "no_effect"), ("failed", "interlock")},
    # a heater or valve that stays on trips its interlock; what was on before looks as without effect
    "welded": {("failed", "no_effect"), ("failed", "stays_on"), ("failed", "interlock")},
}
OF_DEVICES = {
    "hang": {("failed", "device")},
    "refused": {("failed", "device")},
    "absent": {("failed", "device")},
}


def output_of(variable, **options):
    flow = {"dosing": 30.0, "pump": 2000.0}.get(ROLES[variable].output_class)
    options = {"pin": 17, "flow_ml_min": flow, "minimum_off_s": 0.0, **options}
    return Output(name="it", variable=variable, **options)


def chamber_with(*outputs, sensors=(), **options):
    """With the sensors of what the outputs drive, and a lamp and its sensor if there is no output."""
    driven = {variable for each in outputs for variable in each.effects}
    given = (*(each for each in SENSORS if driven.intersection(each.variables)), *sensors)
    lamp = NO_LAMP if outputs else LAMP
    config = Config(sensor=given or (LUX,), output=outputs, light=lamp, interlock=LIMITS, **options)
    check_config(config)
    return config


def inject(rig, kind, device):
    rig.machine.faults.inject(parse_fault({"kind": kind, "device": device}))


async def ask(rig, *outputs, include=()):
    return await rig.bus.services.get(BEGIN).call([list(outputs), list(include)], "ann")


async def results_of(rig, *outputs, include=()):
    """Test these outputs: their results by name."""
    answer = await ask(rig, *outputs, include=include)
    assert answer["success"], answer
    await rig.clock.until(lambda: rig.last("self_test").value["state"] != "running", within=20_000)
    report = rig.last("self_test").value
    assert report["state"] == "done", report
    await rig.clock.advance(5)
    for device in CLIMATE_DEVICES if rig.config is CLIMATE else ("it",):
        holds = "air_temperature_still_rising" in str(report["results"])
        assert rig.last(f"outputs/{device}").value == float(holds and device == "fan")
    return {each["name"]: each for each in report["results"]}


def kinds(results):
    return {name: (each["outcome"], each["finding"]) for name, each in results.items()}


def test_each_fault_of_outputs_has_its_finding():
    # a weak part works, and the calibration of a pump finds how much it gives
    assert set(OF_ACTUATORS) == set(kinds_at(ACTUATOR)) - {"weak"}
    assert set(OF_DEVICES) == {*kinds_at(PIN), *kinds_at(NETWORK)}


async def test_all_outputs_of_the_climate_profile_pass():
    async with rigged(CLIMATE) as rig:
        await rig.clock.advance(600)
        found = kinds(await results_of(rig, include=("valve", "acid")))
        assert found["circulation"] == ("not_tested", "unseen")
        assert found["nutrient"] == ("not_tested", "not_asked")
        tested = set(found) - {"circulation", "nutrient"}
        assert {found[name] for name in tested} == {("passed", "works")}
        assert set(found) == {*CLIMATE_DEVICES, "light white", "light red", "light blue"}


@pytest.mark.parametrize("kind", OF_ACTUATORS)
@pytest.mark.parametrize(("name", "part"), [
    ("valve", "valve"), ("heater", "heater"), ("tap_water", "fill"),
    *(pytest.param(*each, marks=pytest.mark.nightly) for each in
      (("acid", "ph_down"), ("fan", "fan"), ("humidifier", "humidifier"), ("nutrient", "nutrient_a"))),
])  # fmt: skip
async def test_each_fault_of_an_actuator_of_the_climate_profile_is_found(name, part, kind):
    async with rigged(CLIMATE) as rig:
        await rig.clock.advance(600)
        inject(rig, kind, part)
        assert kinds(await results_of(rig, name))[name] in OF_ACTUATORS[kind]
        assert rig.last("outputs/circulation").value == 0.0


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [None, *OF_ACTUATORS])
@pytest.mark.parametrize("variable", WATCHED)
async def test_an_output_of_each_role_passes_and_each_fault_of_it_is_found(variable, kind):
    drives = ("air_humidity",) if variable == FAN else (ROLES[variable].drives,)  # CO2 is as in the room
    direction = "raises" if ROLES[variable].raises else "lowers"
    async with rigged(chamber_with(output_of(variable, drives=drives, direction=direction))) as rig:
        await rig.clock.advance(600)
        if kind:
            inject(rig, kind, ROLES[variable].moves)
        expected = OF_ACTUATORS[kind] if kind else {("passed", "works")}
        if variable == "water_aeration":  # the water is full of oxygen until roots have used it for hours
            expected = OF_ACTUATORS["without_effect"]
        assert kinds(await results_of(rig, "it"))["it"] in expected


PLACES = {
    "lamp": ("gpio-12", {}),
    "relay": ("gpio-17", {"pin": 17}),
    "pwm": ("gpio-17", {"pin": 17, "kind": "pwm"}),
    "http": (
        "network:http://plug",
        {"pin": None, "kind": "http", "url": "http://plug", "protocol": "shelly_gen2"},
    ),
}


@pytest.mark.parametrize(
    ("device", "kind"),
    [(device, kind) for device in PLACES for kind in kinds_at(NETWORK if device == "http" else PIN)],
)
async def test_an_output_whose_device_fails_is_found(device, kind):
    place, options = PLACES[device]
    outputs = () if device == "lamp" else (output_of("air_heater", **options),)
    async with rigged(chamber_with(*outputs)) as rig:
        await rig.clock.advance(60)
        inject(rig, kind, place)
        assert (await ask(rig, "it" if outputs else "light white"))["success"]
        await rig.clock.until(lambda: rig.last("self_test").value["state"] != "running", within=600)
        (found,) = rig.last("self_test").value["results"]
        assert (found["outcome"], found["finding"]) in OF_DEVICES[kind]
        rig.machine.faults.clear()
        await rig.clock.advance(60)
        assert not any(rig.last(f"outputs/{each.name}").value for each in outputs)


@pytest.mark.parametrize("variable", ["air_carbon_dioxide_valve_on", "air_heater", "water_fill"])
async def test_a_relay_that_welds_in_the_test_is_found(variable):
    async with rigged(chamber_with(output_of(variable))) as rig:
        await rig.clock.advance(60)
        assert (await ask(rig, "it"))["success"]
        await rig.clock.until(lambda: rig.last("outputs/it").value == 1.0, within=600)
        inject(rig, "welded", ROLES[variable].moves)
        await rig.clock.until(lambda: rig.last("self_test").value["state"] != "running", within=3_600)
        (found,) = rig.last("self_test").value["results"]
        assert (found["outcome"], found["finding"]) == ("failed", "stays_on")


CONTACT = Sensor(name="contact", kind="gpio", confirms="it", pin=27)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, ("passed", "works")),
        ("without_effect", ("failed", "no_effect")),
        ("welded", ("failed", "stays_on")),
    ],
)
async def test_feedback_decides_where_no_sensor_measures_the_effect(kind, expected):
    pump = Output(name="it", pin=17, drives=("water_circulation",))
    async with rigged(chamber_with(pump, sensors=(CONTACT,))) as rig:
        await rig.clock.advance(60)
        if kind:
            inject(rig, kind, "water_pump")
        assert kinds(await results_of(rig, "it"))["it"] == expected


async def test_an_output_is_not_switched_while_its_sensor_is_unknown():
    async with rigged(chamber_with(output_of("air_heater", needs=""))) as rig:
        await rig.clock.advance(60)
        inject(rig, "absent", "scd30")
        await rig.clock.advance(60)
        begun = rig.bus.topics.get(f"{E}/outputs/it").count
        assert kinds(await results_of(rig, "it"))["it"] == ("failed", "sensor")
        assert rig.bus.topics.get(f"{E}/outputs/it").count == begun


async def test_what_an_interlock_holds_is_not_tested():
    door = Sensor(name="door", kind="gpio", variable="door_open", pin=5)
    shut = Condition(name="shut", outputs=("it",), variable="door_open", on=True)
    async with rigged(chamber_with(output_of("air_heater"), sensors=(door,), condition=(shut,))) as rig:
        inject(rig, "held_open", "door")
        await rig.clock.advance(60)
        found = (await results_of(rig, "it"))["it"]
        assert (found["outcome"], found["finding"]) == ("not_tested", "held")
        assert "condition_shut" in found["reason"]


@pytest.fixture
async def rig(tmp_path):
    async with rigged(chamber_with(output_of("air_heater")), data=tmp_path) as rig:
        await rig.hold.read()
        rig.client = rig.bus.node("client")
        await rig.clock.advance(60)
        yield rig


def publish(rig, topic, value):
    rig.client.publish_arguments(f"{E}/{topic}", [value])


async def hold(rig):
    await rig.bus.services.get("hold/set").call(["cleaning"], "ann")


async def run_recipe(rig):
    state = {
        "state": "running",
        "recipe_id": "basil",
        "phase": "",
        "elapsed": 0,
        "remaining": 0,
        "starts_at": 0,
    }
    rig.bus.node("runner").advertise(f"{E}/recipe_state", RECIPE_STATE).publish(state)


async def set_point(rig):
    publish(rig, "desired/air_temperature", 25.0)


async def override(rig):
    publish(rig, "commanded/air_heater", 0.0)


DISTURBANCES = {hold: "cleaning", run_recipe: "basil", set_point: "desired/air_temperature", override: ""}


@pytest.mark.parametrize("disturb", DISTURBANCES)
async def test_what_else_drives_outputs_refuses_the_test(rig, disturb):
    await disturb(rig)
    await rig.clock.advance(2)
    answer = await ask(rig)
    assert not answer["success"]
    assert (DISTURBANCES[disturb] or "override") in answer["message"]
    assert rig.last("self_test") is None


@pytest.mark.parametrize("disturb", DISTURBANCES)
async def test_what_else_drives_outputs_stops_the_test(rig, disturb):
    await ask(rig, "it")
    await rig.clock.until(lambda: rig.last("outputs/it").value == 1.0, within=600)
    await disturb(rig)
    await rig.clock.advance(2)
    report = rig.last("self_test").value
    assert report["state"] == "stopped"
    assert (DISTURBANCES[disturb] or "client") in report["message"]
    await rig.clock.advance(2)
    assert rig.last("outputs/it").value == 0.0


async def test_a_stop_releases_the_output_at_once(rig):
    await ask(rig, "it")
    assert not (await ask(rig, "it"))["success"]
    await rig.clock.until(lambda: rig.last("outputs/it").value == 1.0, within=600)
    (experiment,) = StatusNode(rig.bus, [E]).snapshot().experiments
    assert experiment.name == "the self-test of the outputs"
    assert (await rig.bus.services.get(STOP).call([], "ann"))["success"]
    await rig.clock.advance(2)
    assert rig.last("self_test").value["state"] == "stopped"
    assert rig.last("outputs/it").value == 0.0
    assert not (await rig.bus.services.get(STOP).call([], "ann"))["success"]


async def test_an_error_of_the_test_releases_the_output(rig, monkeypatch):
    await ask(rig, "it")
    await rig.clock.until(lambda: rig.last("outputs/it").value == 1.0, within=600)
    monkeypatch.setattr("growd_commissioning.output_trial.OutputTrial._feed", lambda _: 1 / 0)
    await rig.clock.advance(2)
    monkeypatch.undo()
    assert rig.last("self_test").value["state"] == "stopped"
    await rig.clock.advance(5)
    assert rig.last("outputs/it").value == 0.0
    assert kinds(await results_of(rig, "it"))["it"] == ("passed", "works")


@pytest.mark.parametrize("names", ["it", [1], ["pump"]])
async def test_wrong_names_are_refused(rig, names):
    for arguments in ([names, []], [[], names]):
        answer = await rig.bus.services.get(BEGIN).call(arguments, "ann")
        assert not answer["success"]
        assert ("include" if arguments[1] else "outputs") in answer["message"]


async def test_an_output_that_is_safe_when_it_is_on_is_switched_off_for_moments():
    fan = output_of("air_circulation", safe="on")
    async with rigged(chamber_with(fan)) as rig:
        await rig.clock.advance(10)
        answer = await ask(rig, "it")
        assert answer["success"]
        await rig.clock.until(lambda: rig.last("outputs/it").value == 0.0, within=60)
        await rig.clock.until(lambda: rig.last("self_test").value["state"] != "running", within=60)
        assert rig.last("outputs/it").value == 1.0


async def test_the_last_result_outlasts_a_restart_and_is_in_the_record_of_a_run():
    memory, config = ShortMemory(), chamber_with(output_of("air_heater"))
    async with rigged(config, memory) as rig:
        assert "self_test" not in circumstances(config, rig.bus, E)
        await rig.clock.advance(60)
        found = await results_of(rig, "it")
    async with rigged(config, memory) as rig:
        await rig.clock.advance(1)
        kept = circumstances(config, rig.bus, E)["self_test"]
        assert (kept["state"], kept["by"], kept["results"]) == ("done", "ann", [*found.values()])
        assert rig.last("self_test").value["results"] == kept["results"]
