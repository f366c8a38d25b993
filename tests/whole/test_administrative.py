"""Which services need an administrator."""

from growd.config import Config, Light, Output, Sensor
from growd_simulation.fault_services import FaultServices, fault_places
from support.rig import rigged

SENSORS = (
    Sensor(name="air", kind="scd30"),
    Sensor(name="co2", kind="mhz19", port="/dev/ttyS9"),
    Sensor(name="light", kind="bh1750"),
)
VALVE = Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on")


async def test_services_with_lasting_effects_need_an_administrator():
    config = Config(sensor=SENSORS, light=Light(), output=(VALVE,), combine={"air_carbon_dioxide": "first"})
    async with rigged(config) as rig:
        FaultServices(rig.bus, rig.machine.faults, fault_places(config))
        assert rig.bus.find_node("simulator").details()["hardware"] == "simulated"
        assert "the hardware is simulated" in rig.bus.find_node("simulator").details()["problems"][0]["text"]
        offered = [rig.bus.services.get(name) for name in rig.bus.services.names()]
    kinds = {service.name.rpartition("/")[2] for service in offered}
    administrative = {service.name.rpartition("/")[2] for service in offered if service.is_administrative}
    expected = {
        "autotune",
        "begin",
        "calibrate",
        "calibrate_light",
        "calibrate_span",
        "calibrate_zero",
        "clear_faults",
        "inject_fault",
        "reset",
        "set_automatic_baseline",
    }
    assert administrative == expected & kinds == expected
