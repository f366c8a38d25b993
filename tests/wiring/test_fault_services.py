"""The services that inject and clear faults of a simulated chamber."""

from contextlib import asynccontextmanager

import pytest

from growd.config import ChannelOptions, Config, Light, Output, Sensor
from growd_hwsim.faults import Fault
from growd_simulation.fault_services import MOST_FAULTS, FaultServices, fault_places
from support.rig import rigged

CHAMBER = Config(
    sensor=(Sensor(name="air", kind="scd30"), Sensor(name="co2", kind="mhz19", port="/dev/ttyUSB*")),
    output=(Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on"),),
    light=Light(channel=(ChannelOptions(name="white", pin=18),)),
    combine={"air_carbon_dioxide": "first"},
)


@asynccontextmanager
async def faulty(config):
    """A chamber whose faults services inject; gives a call of them, and what their node says."""
    async with rigged(config) as rig:
        node = FaultServices(rig.bus, rig.machine.faults, fault_places(config)).node

        async def call(service, **arguments):
            return await rig.bus.services.get(f"simulator/{service}").call(arguments)

        yield rig.machine.faults, call, node.information


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"kind": "nak", "device": "toaster"}, "device must be"),
        ({"kind": "refused", "device": "gpio-99"}, "device: these chambers have no gpio-99; there is"),
        ({"kind": "absent", "device": "/dev/ttyS9"}, "device: these chambers have no /dev/ttyS9; there is"),
        (
            {"kind": "frozen", "device": "bh1750"},
            "device: these chambers have no bh1750; there is scd30, i2c",
        ),
        ({"kind": "nak", "device": "i2c-1:0x5c"}, "device: these chambers have no i2c-1:0x5c; there is"),
        ({"kind": "drift", "device": "scd30"}, "amount is missing"),
        ({"kind": "nak", "device": "scd30", "probability": 0}, "probability must be above 0"),
    ],
)
async def test_a_fault_that_can_not_be_is_refused(entry, words):
    async with faulty(CHAMBER) as (faults, call, _):
        answer = await call("inject_fault", **entry)
        assert (answer["success"], faults.active()) == (False, [])
        assert words in answer["message"]


async def test_the_simulator_lists_the_faults_that_it_accepts():
    async with faulty(CHAMBER) as (faults, call, information):
        kinds = {each["kind"]: each for each in information()["fault_kinds"]}
        places = {each["device"]: each for each in information()["fault_places"]}
        on_lines = {"/dev/ttyUSB0", "i2c-1", "i2c-1:0x61", "mhz19", "scd30"}
        assert places.keys() == {*on_lines, "door", "gpio-18", "gpio-23", "valve"}
        affected = {"valve": "valve", "i2c-1": "air", "gpio-18": "light"}
        for device, name in affected.items():
            assert places[device]["affects"] == [f"environment_1/{name}"]
        assert (places["scd30"]["amount_unit"], places["gpio-23"]["amount_unit"]) == ("ppm", "")
        for device, place in places.items():
            for kind in place["kinds"]:
                amount = 0.7 if kinds[kind]["has_amount"] else 0.0
                entry = {"kind": kind, "device": device, "at": 36_000, "for": 5, "amount": amount}
                assert (await call("inject_fault", **entry))["success"], entry
        active = information()["faults"]
        assert len(active) == sum(len(place["kinds"]) for place in places.values())
        assert all(each["left_s"] == pytest.approx(each["begins_in_s"] + 5) for each in active)
        one = {"device": "gpio-18", "kind": "refused"}
        assert (await call("clear_faults", **one))["message"] == "1 fault cleared"
        left = {(each["device"], each["kind"]) for each in information()["faults"]}
        assert [("gpio-18", kind) in left for kind in ("hang", "refused")] == [True, False]
        for _ in range(MOST_FAULTS):
            faults.inject(Fault("nak", "scd30"))
        answer = await call("inject_fault", kind="nak", device="scd30")
        assert "faults already; clear some" in answer["message"]
