"""The control of a chamber as configured, on a clock that the test moves."""

import pytest
from msgspec.structs import replace

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.config import Config, ConfigError, Light, Output, Sensor, StorageRuleOptions, Store
from growd.runtime.clock import RealClock
from growd.status.status_node import StatusNode
from growd.wiring.actuators import Common
from growd.wiring.chamber import AllChambers
from growd.wiring.chambers_node import declare_topics
from growd_hwsim.faults import Fault
from growd_simulation.simulated_hardware import simulated_hardware
from support.clock import ManualClock
from support.machine import SleepingTime, simulated
from support.memory import ShortMemory
from support.refusals import check_config
from support.rig import rigged
from support.running import running
from support.waiting import until

SLOW = Config(sensor=(Sensor(name="slow", kind="scd30", interval_s=120.0),))


class Bench:
    """A chamber on a machine for whose chips no time passes."""

    def __init__(self, config):
        self.clock = ManualClock()
        self.bus = Bus(self.clock)
        declare_topics(config, self.bus)
        self.complaints = []
        self.chambers = AllChambers(
            config,
            Common(self.bus, simulated(SleepingTime()), memory=ShortMemory(), report=self.complaints.append),
        )
        self.control = self.chambers.by_environment[config.environment.id]


async def test_a_reading_of_a_slow_sensor_is_not_stale_before_the_next_one():
    bench = Bench(SLOW)
    samples = bench.bus.node("sensor").publisher("environment_1/raw/air_carbon_dioxide")
    measured = bench.bus.topics.get("environment_1/measured/air_carbon_dioxide")
    async with running(bench.clock, *bench.control.filters()):
        for _ in range(3):
            samples.publish(400.0)
            await bench.clock.advance(120)
            assert measured.last is not None
            assert measured.last.quality is Quality.OK
        await bench.clock.advance(121)
        assert measured.last.quality is Quality.STALE


async def test_a_slow_sensor_has_not_failed_before_its_first_reading():
    bench = Bench(SLOW)
    (sampler,) = bench.control.samplers()
    (worker,) = bench.chambers.workers.values()
    bench.clock.watch(worker)
    async with running(bench.clock, sampler):
        await bench.clock.advance(60)  # half an interval: the chip measures twice as often as it is read
        status = bench.bus.topics.get("environment_1/diagnostics/slow").last
        assert status is not None
        assert status.value["message"].endswith("has no reading yet")
    await worker.close()


AIR, SPARE = Sensor(name="air", kind="scd30"), Sensor(name="spare", kind="scd30", bus=2)
LUX = Sensor(name="lux", kind="bh1750", bus=3)
VALVE = Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on")
KNOWN_S = 10.0  # from the start until a sensor has measured
SAFE_S = 2 + 1 + 3  # from a failure: the next reading, the second try, the time limits of both


def command(rig, topic, value):
    rig.bus.find_node("client").publish_arguments(f"environment_1/{topic}", [value])


def is_on(rig):
    last = rig.last("switches/valve")
    return last is not None and last.value == 1


class TestWhatAnOutputNeeds:
    async def test_a_valve_is_shut_while_the_air_is_not_known_and_failures_and_recoveries_are_events(self):
        async with rigged(Config(sensor=(AIR,), output=(VALVE,))) as rig:
            node = rig.bus.node("client")
            command(rig, "desired/air_carbon_dioxide_valve_on", 1)
            assert not is_on(rig)
            await rig.clock.until(lambda: is_on(rig), within=KNOWN_S)
            with node.subscribe("environment_1/events") as events:
                rig.machine.faults.inject(Fault("absent", "scd30"))
                await rig.clock.until(lambda: not is_on(rig), within=SAFE_S)
                assert rig.machine.pins.high(VALVE.pin) == 0
                await rig.clock.advance(60)
                rig.machine.faults.clear()
                await rig.clock.until(lambda: is_on(rig), within=60 + KNOWN_S)
                told = [message.value for message in iter(events.get_nowait, None)]
        assert sorted((event["kind"], event["source"]) for event in told) == [
            ("fault", AIR.name),
            ("interlock", "air_carbon_dioxide_unknown"),
            ("interlock", "air_carbon_dioxide_unknown"),
            ("recovery", AIR.name),
        ]
        words = [event["message"] for event in told if event["kind"] == "interlock"]
        assert words == [
            "air_carbon_dioxide is unknown: its sensor is silent, faulty or warming up",
            "released",
        ]
        assert any("does not answer" in event["message"] for event in told if event["kind"] == "fault")

    @pytest.mark.parametrize(
        ("sensors", "relay"),
        [
            ((LUX,), VALVE),
            ((AIR,), replace(VALVE, needs="")),
            ((AIR,), replace(VALVE, variable="air_flush_on")),
        ],
    )
    async def test_an_output_without_needs_is_on_while_the_air_is_unknown(self, sensors, relay):
        async with rigged(Config(sensor=sensors, output=(relay,))) as rig:
            rig.bus.node("client")
            rig.machine.faults.inject(Fault("absent", "i2c-1"))
            command(rig, f"desired/{relay.variable}", 1)
            await rig.clock.advance(60)
            assert is_on(rig)


async def test_the_first_good_sensor_of_a_variable_counts_and_each_has_its_own_topic():
    async with rigged(Config(sensor=(AIR, SPARE, replace(AIR, name="third", bus=3)))) as rig:
        await rig.clock.advance(KNOWN_S)
        assert rig.last("raw/air_carbon_dioxide").value == rig.last("raw/air_carbon_dioxide/air").value
        assert rig.last("raw/air_carbon_dioxide/third").quality is Quality.OK
        rig.machine.faults.inject(Fault("stuck", "i2c-1"))
        await rig.clock.advance(KNOWN_S)
        rig.machine.faults.inject(Fault("hang", "i2c-1"))
        await rig.clock.advance(13)
        assert rig.last("raw/air_carbon_dioxide").value == rig.last("raw/air_carbon_dioxide/spare").value
        assert rig.last("measured/air_carbon_dioxide").quality is Quality.OK
        assert [rig.device(f"samplers/{name}")["state"] for name in ("air", "spare")] == ["failed", "ok"]
        rig.machine.faults.clear()
        await rig.clock.until(lambda: rig.device("samplers/air")["state"] == "ok", within=70)
        samplers = (rig.bus.find_node(f"environment_1/samplers/{name}") for name in ("air", "spare"))
        assert [each.information()["line"] for each in samplers] == [
            {"name": "i2c-1", "recoveries": 2, "threads_left_behind": 1},
            {"name": "i2c-2", "recoveries": 0, "threads_left_behind": 0},
        ]


REFUSED = (
    Config(combine={"air_carbon_dioxide": "median"}),
    Config(combine={"air_colour": "first"}),
    Config(output=(replace(VALVE, needs="water_level_low"),)),
    Config(sensor=(AIR,), light=Light(needs_sensor=True)),
    Config(store=Store(variable={"air_temprature": StorageRuleOptions(absolute_band=1)})),
)


def test_variables_that_no_sensor_measures_are_refused(said):
    for config in REFUSED:
        with said.raises(ConfigError):
            check_config(config)


async def test_the_status_has_each_line_once_and_the_limits_of_the_interlocks():
    sensors = (
        Sensor(name="air", kind="scd30"),
        Sensor(name="lux", kind="bh1750"),
        Sensor(name="lux_2", kind="bh1750", bus=2),
    )
    valve = Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on")
    config = Config(sensor=sensors, output=(valve,), light=Light(), combine={"light_illuminance": "first"})
    async with rigged(config) as rig:
        status = StatusNode(rig.bus, ["environment_1"])
        await rig.clock.advance(10)
        found = status.snapshot()
    assert sorted((line.name, line.recoveries) for line in found.lines) == [("i2c-1", 0), ("i2c-2", 0)]
    by_name = {each.name.rpartition("/")[2]: each for each in found.interlocks}
    limits = {(limit.name, limit.value, limit.unit) for limit in by_name["carbon_dioxide_ceiling"].limits}
    assert limits == {("limit", 5000.0, "ppm"), ("hysteresis", 500.0, "ppm")}


async def test_outputs_that_do_not_answer_are_named_at_the_end():
    relays = tuple(replace(VALVE, name=f"valve_{pin}", pin=pin, needs="") for pin in (20, 21, 22))
    config = Config(sensor=(AIR,), light=Light(enabled=False), output=relays)
    bus, complaints = Bus(RealClock()), []
    declare_topics(config, bus)
    machine = simulated_hardware(config, bus.clock)
    async with AllChambers(
        config, Common(bus, machine, memory=ShortMemory(), report=complaints.append)
    ).running():
        states = [bus.topics.get(f"environment_1/switches/{relay.name}") for relay in relays]
        await until(lambda: all(state.last for state in states))
        for relay in relays:
            machine.faults.inject(Fault("hang", f"gpio-{relay.pin}"))
    machine.close()
    assert [f"valve_{pin}" in each for pin, each in zip((20, 21, 22), sorted(complaints), strict=True)]
