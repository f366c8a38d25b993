"""The whole machine: real drivers at one end, the chamber at the other."""

from contextlib import suppress

import pytest

from growd_drivers.bh1750 import Bh1750
from growd_drivers.errors import HardwareUnavailableError, NotReadyError
from growd_drivers.hardware import Hardware
from growd_drivers.mhz19 import ANSWER_S, BAUD, WARM_UP_S, Mhz19
from growd_drivers.pin_output import PinOutput
from growd_drivers.scd30 import Scd30
from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.errors import FaultError
from growd_hwsim.faults import Fault
from growd_hwsim.hardware import WiredChip, WiredRelay, Wiring
from growd_hwsim.parameters import ChamberParameters
from support.machine import SleepingTime, simulated

FOR_LONG_S = 3_600.0


def lamps_on(machine, pins, *, inverted):
    return {
        channel: PinOutput(machine.pins, pin, name=channel, frequency_hz=200.0, active_high=not inverted)
        for channel, pin in pins.items()
    }


def relay_on(machine, pin, *, active_high=True):
    return PinOutput(machine.pins, pin, name="relay", active_high=active_high)


class Bench:
    def __init__(self, *, inverted=False, **options):
        self.clock = SleepingTime()
        self.machine = simulated(self.clock, wiring=Wiring(inverted_lamps=inverted), **options)
        bus = self.machine.i2c(1)
        self.sensor = Bh1750(bus, sleep=self.machine.sleep)
        self.air = Scd30(bus, sleep=self.machine.sleep)
        self.lamps = lamps_on(self.machine, self.machine.wiring.lamp_pins, inverted=inverted)

    def lux(self):
        return self.sensor.read().illuminance_lux

    def carbon_dioxide(self):
        while True:
            self.clock.advance(1)
            try:
                return self.air.read().carbon_dioxide_ppm
            except NotReadyError:
                continue

    def close(self):
        for lamp in self.lamps.values():
            lamp.close()
        self.machine.close()


@pytest.mark.parametrize("inverted", [False, True])
def test_turning_the_light_up_shows_on_the_sensor_at_once(inverted):
    bench = Bench(inverted=inverted)
    assert bench.lux() == 0
    bench.lamps["white"].write(0.5, FOR_LONG_S)
    assert bench.lux() == pytest.approx(10_000, rel=0.01)
    bench.lamps["red"].write(1.0, FOR_LONG_S)
    assert bench.lux() == pytest.approx(11_100, rel=0.01)
    bench.close()
    assert bench.machine.chamber.illuminance_lux() == 0


def heated(machine, clock, level):
    """The air an hour later, with the heater at this level."""
    machine.chamber.set_actuator("heater", level)
    clock.advance(3600)
    return machine.chamber.air().temperature_degc


def test_a_heater_without_effect_does_not_heat_and_a_welded_one_always_does():
    clock = SleepingTime()
    machine = simulated(clock)
    cold = machine.chamber.air().temperature_degc
    machine.faults.inject(Fault("without_effect", "heater"))
    assert heated(machine, clock, 1.0) == pytest.approx(cold, abs=3)
    machine.faults.clear()
    machine.faults.inject(Fault("welded", "heater", at=60, duration=3600))
    assert heated(machine, clock, 0.0) > cold + 10
    assert heated(machine, clock, 0.0) == pytest.approx(cold, abs=3)
    machine.close()


def test_a_door_that_is_held_open_lets_the_carbon_dioxide_out():
    clock = SleepingTime()
    machine = simulated(clock)
    machine.faults.inject(Fault("held_open", "door"))
    machine.chamber.set_actuator("valve", 1.0)
    clock.advance(600)
    assert machine.chamber.is_door_open()
    assert machine.chamber.air().carbon_dioxide_ppm < 800
    machine.faults.clear("door")
    clock.advance(600)
    assert not machine.chamber.is_door_open()
    assert machine.chamber.air().carbon_dioxide_ppm > 2_000
    machine.close()


@pytest.mark.parametrize(
    ("kind", "device"), [("welded", "door"), ("held_open", "heater"), ("hang", "fan"), ("welded", "scd30")]
)
def test_a_fault_that_a_part_of_the_chamber_cannot_have_is_refused(kind, device):
    with pytest.raises(FaultError, match="can't be"):
        Fault(kind, device)


def test_a_lamp_that_is_not_renewed_goes_dark():
    bench = Bench()
    bench.lamps["white"].write(1.0, 30.0)
    bench.clock.advance(29.0)
    assert bench.lux() == pytest.approx(20_000, rel=0.01)
    bench.clock.advance(1.0)
    assert bench.lux() == 0
    bench.close()


def test_what_an_output_gives_ends_in_time_however_late_somebody_looks():
    """A valve that is open for two seconds, looked at an hour later."""

    def dosed(looked_at):
        clock = SleepingTime()
        machine = simulated(clock, wiring=Wiring(relays={23: WiredRelay("valve")}))
        relay_on(machine, 23).write(1.0, 2.0)
        for seconds in looked_at:
            clock.advance(seconds)
            ppm = machine.chamber.air().carbon_dioxide_ppm
        machine.close()
        return ppm

    once, often = dosed([3_600.0]), dosed([0.1] * 100 + [3_590.0])
    assert once == pytest.approx(often, rel=0.001)


def test_the_same_seed_tells_the_same_story():
    def story(seed):
        bench = Bench(seed=seed)
        bench.lamps["white"].write(0.7, FOR_LONG_S)
        values = [value for _ in range(10) for value in (bench.carbon_dioxide(), bench.lux())]
        bench.close()
        return values

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_it_is_the_drivers_hardware_with_one_bus(said):
    machine = simulated(SleepingTime())
    assert isinstance(machine, Hardware)
    assert machine.i2c(1).scan() == [0x23, 0x61]
    with said.raises(HardwareUnavailableError):
        machine.i2c(0).scan()
    machine.close()


def test_several_chips_of_a_kind_have_different_noise():
    clock = SleepingTime()
    places = [(bus, address) for bus in (1, 3) for address in (0x23, 0x5C)]
    light_sensors = [WiredChip("bh1750", bus, address) for bus, address in places]
    air_sensors = [WiredChip("scd30", bus, 0x61) for bus in (1, 3)]
    machine = simulated(clock, wiring=Wiring(i2c=(*light_sensors, *air_sensors)))
    machine.chamber.set_lamp("white", 1.0)
    assert machine.sensor("bh1750") is machine.chips[1, 0x23]  # the first of its kind
    assert [machine.i2c(bus).scan() for bus in (1, 3)] == [[0x23, 0x5C, 0x61]] * 2
    light = [Bh1750(machine.i2c(bus), sleep=clock.sleep, address=address) for bus, address in places]
    lux = [sensor.read().illuminance_lux for sensor in light]
    assert lux == [pytest.approx(20_000, rel=0.01)] * 4
    assert len(set(lux)) == 4
    air = [Scd30(machine.i2c(bus), sleep=clock.sleep) for bus in (1, 3)]
    for sensor in air:
        with pytest.raises(NotReadyError):
            sensor.read()
    clock.advance(2)
    ppm = [sensor.read().carbon_dioxide_ppm for sensor in air]
    assert ppm == [pytest.approx(machine.chamber.air().carbon_dioxide_ppm, abs=11)] * 2
    assert ppm[0] != ppm[1]
    machine.close()


SECOND = Wiring(
    i2c=(WiredChip("bh1750", 1, 0x5C), WiredChip("scd30", 3, 0x61), WiredChip("mhz16", 3, 0x4D)),
    lamp_pins={"white": 20},
    inverted_lamps=True,
    relays={21: WiredRelay("valve", active_high=False)},
    serial={"/dev/ttyUSB0": "mhz19"},
)


@pytest.fixture
def two_chambers():
    clock = SleepingTime()
    second = SimulatedChamber(clock.monotonic, ChamberParameters(daylight_lux=0.0))
    machine = simulated(clock, further=[(second, SECOND)])
    yield machine
    machine.close()


def test_valves_and_sensors_of_two_chambers_share_no_air(two_chambers):
    machine, (first, second) = two_chambers, two_chambers.chambers
    assert machine.chamber is first
    lines = [machine.serial(place, baud=BAUD, timeout_s=ANSWER_S) for place in ("/dev/ttyUSB0", "i2c-3:0x4d")]
    others = [
        Scd30(machine.i2c(3), sleep=machine.sleep),
        *(Mhz19(line, monotonic=machine.monotonic) for line in lines),
    ]
    for sensor in others:
        with suppress(NotReadyError):
            sensor.read()
    valve = relay_on(machine, 21, active_high=False)
    valve.write(1.0, FOR_LONG_S)
    machine.sleep(WARM_UP_S)
    valve.close()
    assert first.air().carbon_dioxide_ppm < 430
    truth = second.air().carbon_dioxide_ppm
    assert truth > 1_000
    assert [sensor.read().carbon_dioxide_ppm for sensor in others] == [pytest.approx(truth, rel=0.1)] * 3
