"""The table of device kinds: each entry fits its driver, its simulated chip and the configuration."""

import inspect
import sys
from pkgutil import resolve_name

import pytest

from growd.bus import Bus
from growd.config import Config, Sensor, Simulator
from growd.device_kinds import NOT_OF_DRIVERS, SENSOR_KINDS, with_article
from growd.variables import VARIABLES
from growd.wiring.sensors import SensorDevice, open_sensor
from growd_drivers.errors import NotReadyError
from growd_hwsim.chip import SENSORS
from growd_hwsim.fault_kinds import WITH_AMOUNT
from growd_hwsim.faults import Fault
from growd_simulation.fault_services import FaultServices, fault_places
from growd_simulation.simulated_hardware import simulated_hardware
from support.clock import ManualClock
from support.machine import SleepingTime

ON_I2C = [name for name, kind in SENSOR_KINDS.items() if kind.addresses]
CALIBRATED = [name for name, kind in SENSOR_KINDS.items() if kind.calibrations]


class Clock(SleepingTime):
    def sleep_blocking(self, seconds):
        self.sleep(seconds)

    def time(self):
        return self.monotonic()


NEEDED = {
    "gpio": {"pin": 17, "variable": "door_open"},
    "ads1115": {"variable": "soil_moisture", "points": ((2.8, 0.0), (1.2, 100.0))},
    "ds18b20": {},
    "mqtt": {"topic": "door", "variable": "door_open"},
    "topic": {"variable": "door_open"},
}
READ = [name for name, kind in SENSOR_KINDS.items() if kind.opens != "messages"]


def sensor_of(name, **options):
    place = {"port": "/dev/serial0"} if SENSOR_KINDS[name].opens == "serial" else NEEDED.get(name, {})
    return Sensor(name="it", kind=name, **place, **options)


@pytest.fixture
def opened():
    machines = []

    def open_one(sensor):
        clock = Clock()
        machine = simulated_hardware(Config(sensor=(sensor,), simulator=Simulator(enabled=True)), clock)
        machines.append(machine)
        return machine, clock

    yield open_one
    for machine in machines:
        machine.close()


@pytest.mark.parametrize("name", READ)
def test_a_sensor_measures_its_variables_in_the_simulated_chamber(name, opened):
    sensor, driver = sensor_of(name), resolve_name(SENSOR_KINDS[name].driver)
    taken = set(inspect.signature(driver).parameters)
    assert {option for option in SENSOR_KINDS[name].options if option not in NOT_OF_DRIVERS} <= taken
    assert isinstance(open_sensor(opened(sensor)[0], sensor), driver)
    machine, clock = opened(sensor)
    device = SensorDevice(machine, sensor)
    try:
        reading = device.read()
    except NotReadyError:  # that has set it up
        clock.sleep(SENSOR_KINDS[name].warm_up_s + 5)
        reading = device.read()
    assert set(reading) == set(device.variables) <= set(VARIABLES)
    for variable, value in reading.items():
        assert VARIABLES[variable].minimum <= value <= VARIABLES[variable].maximum


@pytest.mark.parametrize("name", ON_I2C)
def test_every_address_of_a_sensor_can_be_used(name, opened):
    for address in SENSOR_KINDS[name].addresses:
        machine, _ = opened(sensor_of(name, address=address))
        assert list(machine.chips) == [(1, address)]
    driver = resolve_name(SENSOR_KINDS[name].driver)
    first = getattr(driver, "ADDRESS", None) or sys.modules[driver.__module__].ADDRESS
    assert SENSOR_KINDS[name].addresses[0] == first


@pytest.mark.parametrize("name", sorted(SENSORS))
def test_every_fault_of_a_chip_can_be_injected_by_the_name_of_the_kind(name):
    assert SENSORS[name].faults
    for kind in SENSORS[name].faults:
        Fault(kind, name, amount=1.0 if kind in WITH_AMOUNT else None)


@pytest.mark.parametrize("name", SENSOR_KINDS)
def test_every_kind_has_places_of_faults_or_none(name, opened):
    places = fault_places(Config(sensor=(sensor_of(name),)))
    machine, _ = opened(sensor_of(name))
    bus = Bus(ManualClock())
    node = FaultServices(bus, machine.faults, places).node
    shown = {each["device"]: each["kinds"] for each in node.information()["fault_places"]}
    assert shown.keys() == places.keys()
    assert all(shown.values())
    assert (name in shown) is (name in SENSORS)


@pytest.mark.parametrize("name", CALIBRATED)
def test_the_calibrations_of_a_sensor_are_methods_of_its_driver_with_its_limits(name):
    kind, driver = SENSOR_KINDS[name], resolve_name(SENSOR_KINDS[name].driver)
    module = sys.modules[driver.__module__]
    limits = ("MINIMUM_REFERENCE_PPM", "MINIMUM_SPAN_PPM", "MAXIMUM_REFERENCE_PPM")
    known = {getattr(module, limit, None) for limit in limits} | {max(getattr(module, "RANGES_PPM", (0,)))}
    for calibration in kind.calibrations:
        assert callable(getattr(driver, calibration.method))
        if not calibration.is_of_carbon_dioxide:
            continue
        if calibration.reference_range:
            assert {*calibration.reference_range} <= known
        else:
            assert calibration.reference == module.ZERO_POINT_PPM
    assert kind.warm_up_s == getattr(module, "WARM_UP_S", 0.0)


def test_names_of_parts_are_spelled_out():
    assert [with_article(part) for part in ("SCD30", "BH1750", "TSL2591", "MH-Z19")] == [
        *("an SCD30", "a BH1750", "a TSL2591", "an MH-Z19")
    ]
