"""Faults of configured devices: as words for a simulation, and services that inject and clear them."""

from __future__ import annotations

import logging
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import counted
from growd.bus.fields import Field, Kind
from growd.config import chambers_of
from growd.config.outputs import IN_THE_NETWORK, OwnOutput
from growd_drivers.sc16is750 import place_of as place_of_bridge
from growd_hwsim.actuators import DOOR
from growd_hwsim.chip import SENSORS
from growd_hwsim.errors import FaultError
from growd_hwsim.fault_files import parse_fault
from growd_hwsim.fault_kinds import KINDS, WITH_AMOUNT, kinds_at, unit_of_amount
from growd_hwsim.faults import network_place, place_of
from growd_simulation.simulated_hardware import place_in_network

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from growd.bus import Bus
    from growd.config import Config, Output, Sensor
    from growd_hwsim.faults import Fault, Faults


logger = logging.getLogger(__name__)

_ARGUMENTS = (
    Field("kind", Kind.STRING, max_length=32, doc="what fails; the node simulator lists the kinds"),
    Field(
        "device",
        Kind.STRING,
        max_length=256,
        doc="a kind of sensor, an actuator such as heater, or a place such as i2c-1 or network:http://plug",
    ),
    Field("at", Kind.FLOAT64, 0, unit="s", default=0.0, doc="from now"),
    Field("for", Kind.FLOAT64, 0, unit="s", default=0.0, doc="how long; 0: until it is cleared"),
    Field("probability", Kind.FLOAT64, 0, 1, default=1.0, doc="of each message"),
    Field("seed", Kind.INT64, default=0, doc="of the random generator"),
    Field(
        "amount",
        Kind.FLOAT64,
        default=0.0,
        doc="of noise, of drift in an hour; end of a capped range; share of a weak part; 0 for others",
    ),
)
MOST_FAULTS = 1_000
_ZERO_IS_NONE = {"for", "amount"}
_CLEARED = (
    Field("device", Kind.STRING, max_length=256, default="", doc="the device of the faults; default: all"),
    Field("kind", Kind.STRING, max_length=32, default="", doc="the kind of the faults; default: all"),
)

_KINDS = [
    {"kind": kind, "effect": effect, "has_amount": kind in WITH_AMOUNT} for kind, effect in KINDS.items()
]
_SIMULATED = {
    "text": "the hardware is simulated: no sensor is read and no output is switched; "
    "for real hardware set [simulator] enabled = false",
    "is_note": True,
    "code": "hardware_simulated",
}


def fault_places(config: Config) -> dict[str, list[str]]:
    """The devices that a fault may name in these chambers, each with the devices of growd that it affects."""
    places: dict[str, list[str]] = {}
    for chamber in chambers_of(config):
        for sensor in chamber.options.sensor:
            for place in filter(place_of, (sensor.kind, *_places_of(sensor))):  # a posted value has none
                places.setdefault(place, []).append(f"{chamber.environment}/{sensor.name}")
        for channel in chamber.light.channel:
            places.setdefault(f"gpio-{channel.pin}", []).append(f"{chamber.environment}/light")
        for output in chamber.channels_by_path.values():
            if output.pin is not None:
                places.setdefault(f"gpio-{output.pin}", []).append(f"{chamber.environment}/light")
        for output in chamber.outputs:
            on_pin = [] if output.pin is None else [f"gpio-{output.pin}"]
            moved = [output.role.moves] if output.role and output.role.moves else []
            for place in (*on_pin, *moved, *_places_of_chip(output), *_place_in_network(output)):
                places.setdefault(place, []).append(f"{chamber.environment}/{output.name}")
        places.setdefault(DOOR, []).append(chamber.environment)
    return places


def fault_among(places: Collection[str], entry: Mapping[str, Any]) -> Fault:
    """The fault of an entry of a faults file, at one of these places. Raises `FaultError`."""
    fault = parse_fault(entry)
    if fault.device not in places:
        there = ", ".join(places) or "none"
        raise FaultError(f"device: these chambers have no {fault.device}; there is {there}", key="device")
    return fault


def _places_of(sensor: Sensor) -> Iterator[str]:
    """Its pin or serial port, or its bus and its address there."""
    if sensor.switch_pin is not None:
        yield f"gpio-{sensor.switch_pin}"
    elif sensor.is_on_i2c:
        yield f"i2c-{sensor.bus}"
        yield place_of_bridge(sensor.bus, sensor.i2c_address)
    elif sensor.port:
        yield sensor.port.replace("*", "0")  # as the simulated port is named


def _places_of_chip(output: Output) -> Iterator[str]:
    """The simulated chip of an output of another package, its bus and its address there."""
    if isinstance(output, OwnOutput) and output.kind in SENSORS and output.own.keys() >= {"bus", "address"}:
        yield output.kind
        yield f"i2c-{output.own['bus']}"
        yield place_of_bridge(output.own["bus"], output.own["address"])


def _place_in_network(output: Output) -> Iterator[str]:
    if output.kind in IN_THE_NETWORK:
        yield network_place(place_in_network(output))


class FaultServices:
    """The services `simulator/inject_fault` and `simulator/clear_faults`.

    Their node lists the active faults (`faults`), and the faults that can be injected (`fault_kinds`,
    `fault_places`). A fault may only be at one of `places`. The node also warns in `growd status` that the
    hardware is simulated.
    """

    def __init__(self, bus: Bus, faults: Faults, places: Mapping[str, list[str]]) -> None:
        self._faults = faults
        self._places = places
        self.node = bus.node("simulator")
        self.node.serve(
            "simulator/inject_fault",
            "growd/InjectFault",
            self._inject,
            arguments=_ARGUMENTS,
            doc="Inject a fault into the simulated machine, as an entry of a faults file does.",
            is_administrative=True,
        )
        self.node.serve(
            "simulator/clear_faults",
            "growd/ClearFaults",
            self._clear,
            arguments=_CLEARED,
            doc="Clear faults.",
            is_administrative=True,
        )
        self.node.describe("hardware", lambda: "simulated")
        self.node.describe("problems", lambda: [_SIMULATED])
        self.node.describe("faults", lambda: [_timed(*each) for each in self._faults.timed()])
        self.node.describe("fault_kinds", lambda: _KINDS)
        self.node.describe("fault_places", lambda: [*map(self._place, self._places)])

    async def _inject(self, **entry: Any) -> dict[str, Any]:
        given = {name: value for name, value in entry.items() if value or name not in _ZERO_IS_NONE}
        try:
            fault = fault_among(self._places, given)
        except FaultError as error:
            return {"success": False, "message": str(error)}
        if len(self._faults.active()) >= MOST_FAULTS:
            return {"success": False, "message": f"there are {MOST_FAULTS} faults already; clear some"}
        self._faults.inject(fault)
        logger.info("simulated fault: %s at %s", fault.kind, fault.device)
        return {"success": True, "message": f"{fault.kind} at {fault.device}"}

    async def _clear(self, device: str, kind: str) -> dict[str, Any]:
        number = self._faults.clear(device or None, kind or None)
        return {"success": True, "message": f"{counted(number, 'fault')} cleared"}

    def _place(self, device: str) -> dict[str, Any]:
        kind = place_of(device) or device
        return {
            "device": device,
            "affects": [*dict.fromkeys(self._places[device])],
            "kinds": kinds_at(kind),
            "amount_unit": unit_of_amount(kind),
        }


def _timed(fault: Fault, begins_in_s: float, left_s: float | None) -> dict[str, Any]:
    return {**asdict(fault), "begins_in_s": begins_in_s, "left_s": left_s}


FORM: Final = "KIND[=AMOUNT]:DEVICE@TIME[+LENGTH]"
_FAULT: Final = re.compile(
    r"(?P<kind>\w+)(?:=(?P<amount>[^:]+))?:(?P<device>.+)@(?P<at>\w[\w.]*)(?:\+(?P<length>[\w.]+))?"
)
_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|s)")


def fault_of(text: str, config: Config) -> Fault:
    """The fault at a device of this configuration. Raises ValueError with a sentence."""
    found = _FAULT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is not {FORM}, such as absent:scd30@2d6h+30min")
    kind, amount, device, at, length = found.group("kind", "amount", "device", "at", "length")
    try:
        entry: dict[str, Any] = {"kind": kind, "device": device, "at": _seconds(at)}
        if length:
            entry["for"] = _seconds(length)
        if amount:
            entry["amount"] = float(amount)
        return fault_among(fault_places(config), entry)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def _seconds(text: str) -> float:
    """Seconds of a time such as 2d6h. Raises ValueError."""
    if not re.fullmatch(f"(?:{_PART.pattern})+", text):
        raise ValueError(f"expected a time such as 2d6h or 90min, got {text}")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
