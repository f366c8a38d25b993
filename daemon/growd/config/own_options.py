"""Options that a kind of another package declares, beside those of [[sensor]]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from growd.config.chamber import chambers_of
from growd.config.devices import OwnSensor, Sensor
from growd.config.findings import Finding
from growd.config.outputs import Output, OwnOutput
from growd.device_kinds import OUTPUT_KINDS, OWN_OUTPUTS, SENSOR_KINDS
from growd.own_kinds import BUILT_IN, load_side_by_side, output_kind, reason_of, sensor_kind
from growd_drivers.kinds import DriverOption, OutputKind

FIRST_ADDRESS, LAST_ADDRESS = 0x08, 0x77
"""As `growd_drivers.i2c` has them, which is not imported for a configuration."""

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd.config.chamber import Chamber
    from growd.config.root import Config
    from growd_drivers.kinds import SensorKind


def load_kinds(root: Mapping[str, Any]) -> None:
    """Load all kinds of other packages that a file names. Blocking."""
    further = root.get("chamber")
    chambers = [root, *(further.values() if isinstance(further, dict) else ())]
    sensors, outputs = (
        {name for each in chambers for name in _named(each, of)} for of in ("sensor", "output")
    )
    load_side_by_side(sensors - BUILT_IN, outputs - {*OUTPUT_KINDS})


def _named(chamber: Any, section: str) -> Iterator[str]:
    """The kinds in the sections of a chamber, which may be anything."""
    sections = chamber.get(section) if isinstance(chamber, dict) else None
    for each in sections if isinstance(sections, list) else ():
        if isinstance(each, dict) and isinstance(each.get("kind"), str):
            yield each["kind"]


def own_kind(
    tree: Mapping[str, Any], section: type[Any], *, is_loaded: bool
) -> SensorKind | OutputKind | None:
    """The kind of another package that a section of the file names, if it does. Blocking."""
    name = tree.get("kind")
    if not isinstance(name, str):
        return None
    if section is Output:
        return output_kind(name, is_loaded=is_loaded)
    if section is Sensor and name not in BUILT_IN:
        return sensor_kind(name, is_loaded=is_loaded)
    return None


def declared_by(kind: SensorKind | OutputKind) -> dict[str, DriverOption]:
    """The options of a kind by name; those of an output say where it is, too."""
    place: tuple[DriverOption, ...] = ()
    if isinstance(kind, OutputKind) and kind.opens == "i2c":
        usual = kind.addresses[0]
        place = (
            DriverOption("bus", int, "Number of the I2C bus.", 1, 0, 32),
            DriverOption("address", int, "Address on the bus.", usual, FIRST_ADDRESS, LAST_ADDRESS),
        )
    elif isinstance(kind, OutputKind) and kind.opens == "serial":
        place = (DriverOption("port", str, "The serial port."),)
    return {option.name: option for option in (*place, *kind.own_options)}


def type_of(option: DriverOption) -> Any:
    """The type of the values of an option."""
    if option.choices:
        return Literal[option.choices]
    if option.kind in (int, float):
        return Annotated[option.kind, Meta(ge=option.least, le=option.most)]
    return option.kind


def with_own(section: Sensor | Output, kind: str, own: dict[str, Any]) -> OwnSensor | OwnOutput:
    """The sensor or output as one of a kind of another package."""
    shared = {name: getattr(section, name) for name in section.__struct_fields__} | {"kind": kind, "own": own}
    return OwnSensor(**shared) if isinstance(section, Sensor) else OwnOutput(**shared)


def failed_drivers(config: Config) -> list[Finding]:
    """The sensors and outputs whose driver is not loaded, with the reason."""
    return [
        Finding(chamber.path(section, number, "kind"), f"{name} has failed: {reason}")
        for chamber in chambers_of(config)
        for section, number, name, kind in _kinds(chamber)
        if (reason := reason_of(kind))
    ]


def _kinds(chamber: Chamber) -> Iterator[tuple[str, int, str, SensorKind | OutputKind | None]]:
    for number, sensor in enumerate(chamber.options.sensor):
        yield "sensor", number, sensor.name, SENSOR_KINDS[sensor.kind]
    for number, output in enumerate(chamber.options.output):
        yield "output", number, output.name, OWN_OUTPUTS.get(output.kind)
