"""Options that a kind of another package declares, beside those of [[sensor]]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from growd.config.chamber import chambers_of
from growd.config.devices import OwnSensor, Sensor
from growd.config.findings import Finding
from growd.device_kinds import SENSOR_KINDS
from growd.own_kinds import BUILT_IN, sensor_kind
from growd_drivers.kinds import UnloadedKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd.config.root import Config
    from growd_drivers.kinds import DriverOption, SensorKind


def own_kind(tree: Mapping[str, Any], section: type[Any], *, is_loaded: bool) -> SensorKind | None:
    """The kind of another package that a section of the file names, if it does. Blocking."""
    name = tree.get("kind")
    if section is not Sensor or not isinstance(name, str):
        return None
    kind = sensor_kind(name, is_loaded=is_loaded)
    return kind if kind is not None and name not in BUILT_IN else None


def type_of(option: DriverOption) -> Any:
    """The type of the values of an option."""
    if option.choices:
        return Literal[option.choices]
    if option.kind in (int, float):
        return Annotated[option.kind, Meta(ge=option.least, le=option.most)]
    return option.kind


def with_own(sensor: Sensor, kind: str, own: dict[str, Any]) -> Sensor:
    """The sensor as one of a kind of another package."""
    shared = {name: getattr(sensor, name) for name in Sensor.__struct_fields__}
    return OwnSensor(**shared | {"kind": kind, "own": own})


def failed_drivers(config: Config) -> list[Finding]:
    """The sensors whose driver is not loaded, with the reason."""
    return [
        Finding(chamber.path("sensor", number, "kind"), f"{sensor.name} has failed: {kind.reason}")
        for chamber in chambers_of(config)
        for number, sensor in enumerate(chamber.options.sensor)
        if isinstance(kind := SENSOR_KINDS[sensor.kind], UnloadedKind)
    ]
