"""Writes one environment of a configuration in force as a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import fields, replace

from growd.config.camera import Camera
from growd.config.lines import toml
from growd.config.mqtt import Mqtt
from growd.config.root import ChamberOptions, Config
from growd.config.services import Environment, Simulator

if TYPE_CHECKING:
    from msgspec.structs import FieldInfo

_LOGINS: Final = ("user", "password_file")
_LOGIN: Final = re.compile("//[^/]*@")
"""In an address, in whatever option."""


def simulated_chamber(config: Config, environment: str) -> str:
    """A configuration (TOML) with this environment alone, on simulated hardware.

    Logins, faults and recordings of the simulator, and all that has no effect on points are left out.
    """
    options = config.chambers()[environment]
    sections = {each.name: getattr(options, each.name) for each in fields(ChamberOptions)}
    sections["environment"] = Environment(id=environment, time_zone=config.environment.time_zone)
    alone = Config(
        **sections,
        mqtt=Mqtt(host=config.mqtt.host),  # its devices need a broker
        store=config.store,
        simulator=Simulator(),
    )
    return "".join(f"{name} = {toml(section)}\n" for name, section in _plain(alone).items())


def with_camera(config: Config, environment: str) -> Config:
    """The same with a simulated camera in an environment, before which plants grow."""
    camera = (Camera(name="film", kind="simulated"),)
    if environment == config.environment.id:
        return replace(config, camera=camera)
    chamber = replace(config.chamber[environment], camera=camera)
    return replace(config, chamber={**config.chamber, environment: chamber})


def _plain(value: Any) -> Any:
    """A value without structs, options that have their defaults, and logins."""
    if isinstance(value, msgspec.Struct):
        given = ((each, getattr(value, each.name)) for each in fields(value))
        changed = {each.name: found for each, found in given if found != _default(each)}
        own = changed.pop("own", {})  # options of a kind of another package
        return _plain(changed | own)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if name not in _LOGINS}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return _LOGIN.sub("//", value) if isinstance(value, str) else value


def _default(option: FieldInfo) -> Any:
    """The default of an option; of a required one something that no option is."""
    return option.default if option.default_factory is msgspec.NODEFAULT else option.default_factory()
