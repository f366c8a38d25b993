"""The topics of the configuration, and the node `chambers`: what each environment measures and drives."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from growd.bus import Bus
from growd.bus.errors import BusError, NameTakenError
from growd.bus.messages import MESSAGE_TYPES
from growd.config import Finding, chambers_of
from growd.control.topics import (
    LIGHT_CHANNELS,
    RESERVED,
    declare_environment,
    feedback,
    light_channels,
    output_level,
    raw,
    switch_state,
)
from growd.device_kinds import SENSOR_KINDS
from growd.output_roles import OutputClass
from growd.runtime.clock import RealClock
from growd.store.bootstrap import Databases
from growd.variable_names import LANGUAGES, VARIABLE_NAMES, group_of
from growd.variables import ILLUMINANCE, VARIABLES
from growd.wiring.outputs import place_of_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config import Chamber, Config, Sensor


def declare_topics(config: Config, bus: Bus) -> None:
    """Declare the topics of each environment, and those of the section [topics]. Raises `BusError`."""
    _declare_environments(config, bus)
    for name, message_type in config.topics.items():
        bus.topics.declare(name, MESSAGE_TYPES[message_type], is_open=True)


def unfit_topics(config: Config) -> Iterator[Finding]:
    """Entries of [topics] whose name is invalid or belongs to growd."""
    bus = Bus(RealClock())
    _declare_environments(config, bus)
    for name, message_type in config.topics.items():
        environment, _, rest = name.removeprefix("/").partition("/")
        try:
            is_reserved = environment in config.chambers() and rest.partition("/")[0] in RESERVED
            if is_reserved or environment == "alerts":
                raise NameTakenError("topic", name)
            bus.topics.declare(name, MESSAGE_TYPES[message_type], is_open=True)
        except BusError as error:
            yield Finding(("topics", name), str(error))


def _declare_environments(config: Config, bus: Bus) -> None:
    for chamber in chambers_of(config):
        declare_environment(
            bus,
            chamber.environment,
            chamber.measured,
            (*chamber.derived, *chamber.seen),
            chamber.set_point_limits,
        )


CHANNELS = tuple(f"light_intensity_{name}" for name in LIGHT_CHANNELS)


def describe_chambers(config: Config, bus: Bus, time_zone: str) -> None:
    """Describe all environments in the node `chambers`; docs/clients.md has the members."""
    chambers = chambers_of(config)
    node = bus.node("chambers")
    databases = Databases.prefixed(config.couchdb.prefix).names_by_folder()
    node.describe("databases", lambda: databases)
    node.describe("environments", lambda: [_environment(chamber, bus, time_zone) for chamber in chambers])


def time_zone_name(config: Config, localtime: str = "/etc/localtime") -> str:
    """The zone of times of day for clients: "Europe/Berlin", or "+01:00" if it has no name. Blocking."""
    named = config.environment.time_zone or os.environ.get("TZ", "").lstrip(":")
    name = named or os.path.realpath(localtime).rpartition("/zoneinfo/")[2]
    try:
        return ZoneInfo(name).key
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return datetime.now().astimezone().isoformat()[-6:]


def _environment(chamber: Chamber, bus: Bus, time_zone: str) -> dict[str, Any]:
    return {
        "environment": chamber.environment,
        "time_zone": time_zone,
        "variables": [*_variables(chamber)],
        "devices": [
            {**device, "services": _services(bus, chamber, device)}
            for device in (*_sensors(chamber), *_outputs(chamber), *_cameras(chamber))
        ],
    }


def _variables(chamber: Chamber) -> Iterator[dict[str, Any]]:
    """Those that are measured or calculated, controlled, or may be measured by hand."""
    reach = chamber.reach()
    for variable in VARIABLES.values():
        name = variable.name
        is_measured = name in chamber.known
        if is_measured or name in reach or not variable.is_output:
            yield {
                "variable": name,
                "names": dict(zip(LANGUAGES, VARIABLE_NAMES[name], strict=True)),
                "group": group_of(name),
                "unit": variable.unit,
                "minimum": variable.minimum,
                "maximum": variable.maximum,
                "precision": variable.precision,
                "measured": is_measured,
                "derived": name in chamber.derived,
                "controlled": name in reach,
                "manual": not is_measured and not variable.is_output,
                "reach": reach.get(name),
                "outputs": [each for each in _driven_by(chamber, name) if name in reach and each in reach],
            }


def _driven_by(chamber: Chamber, variable: str) -> tuple[str, ...]:
    """The variables of the outputs that a controller of this one has."""
    if variable == ILLUMINANCE:
        return CHANNELS
    names = dict.fromkeys(each.own_variable for each in chamber.drivers_of(variable))
    return tuple(name for name in names if name != variable)


def _sensors(chamber: Chamber) -> Iterator[dict[str, Any]]:
    for sensor in chamber.options.sensor:
        yield {
            "name": sensor.name,
            "kind": sensor.kind,
            "part": SENSOR_KINDS[sensor.kind].part,
            "role": "sensor",
            "variables": sensor.variables,
            "line": sensor.line,
            "topics": [*_topics(chamber, sensor)],
        }


def _topics(chamber: Chamber, sensor: Sensor) -> Iterator[str]:
    if sensor.confirms:
        yield feedback(chamber.environment, sensor.confirms)
    for name in sensor.variables:
        yield raw(chamber.environment, name, sensor.name if name in chamber.shared else "")


def _outputs(chamber: Chamber) -> Iterator[dict[str, Any]]:
    if chamber.lamp_channels:
        yield {
            "name": "light",
            "kind": "lamp",
            "part": "lamp",
            "role": "output",
            "class": OutputClass.LIGHT,
            "variables": [ILLUMINANCE, *map("light_intensity_{}".format, chamber.lamp_channels)],
            "pins": [channel.pin for channel in chamber.light.channel],
            "topics": [light_channels(chamber.environment)],
        }
    for output in chamber.outputs:
        role = output.role
        if role is None:
            continue
        written = output_level if output.can_dim else switch_state
        yield {
            "name": output.name,
            "kind": output.kind,
            "part": role.name,
            "role": "output",
            "class": role.output_class,
            "variables": [output.own_variable],
            "drives": list(output.moved),
            "direction": "lowers" if False in output.moved.values() else "raises",
            "can_dim": output.can_dim,
            "power_w": output.power_w,
            "flow_ml_min": output.flow_ml_min,
            "pins": [] if output.pin is None else [output.pin],
            "place": place_of_output(output),
            "topics": [written(chamber.environment, output.name)],
        }


def _cameras(chamber: Chamber) -> Iterator[dict[str, Any]]:
    for camera in chamber.options.camera:
        yield {
            "name": camera.name,
            "kind": camera.kind,
            "part": "camera",
            "role": "camera",
            "variables": [],
            "pins": [],
            "place": camera.place,
            "topics": [],
        }


def _services(bus: Bus, chamber: Chamber, device: dict[str, Any]) -> list[str]:
    """Services: calibrations of a sensor in the order of their steps, autotunes of an output, photos."""
    if device["role"] == "camera":
        return [f"{chamber.environment}/camera/{device['name']}/take"]
    if device["role"] == "sensor":
        node = f"{chamber.environment}/samplers/{device['name']}/"
        steps = [node + each.name for each in SENSOR_KINDS[device["kind"]].calibrations]
        found = {name for name in bus.services.names() if name.startswith(node)}
        return [*filter(found.__contains__, steps), *sorted(found.difference(steps))]
    tuned = dict.fromkeys((*_tuned_with(chamber, device["name"]), device["variables"][0]))
    nodes = tuple(f"{chamber.environment}/controllers/{each}/" for each in tuned)
    of_loops = [name for name in bus.services.names() if name.startswith(nodes)]
    begin = f"{chamber.environment}/pump_calibration/begin"
    is_pump = device["class"] == OutputClass.DOSING and begin in bus.services.names()
    return [*of_loops, begin] if is_pump else of_loops


def _tuned_with(chamber: Chamber, name: str) -> Iterator[str]:
    """The variables whose controllers an autotune tests with an output."""
    for output in chamber.outputs:
        if output.name == name:
            yield from (variable for variable, raises in output.moved.items() if raises)
