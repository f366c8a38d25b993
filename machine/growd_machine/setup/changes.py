"""Changes of devices in the configuration file, with the checks of a start."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from growd.config import Config, ConfigError, chambers_of
from growd.config.profiles import PROFILES, profile_path
from growd.runtime.files import EncodingError, read_text, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from growd.config import Output, Sensor
    from growd.config.findings import OptionPath


@dataclass(frozen=True)
class DeviceChange:
    """A change of a device: `name` is its name in the file, "" for a new one; without `options` it goes."""

    environment: str
    section: str
    name: str
    options: dict[str, Any] | None


@dataclass(frozen=True)
class Changed:
    """The text of a file before and after a change, and what it says then."""

    before: str
    after: str
    config: Config


class InvalidDeviceError(ConfigError):
    """The configuration would not be valid. `fields` has the reason for each option of the device."""

    def __init__(self, error: ConfigError, fields: dict[str, str]) -> None:
        super().__init__(*error.sentences, findings=error.findings)
        self.fields = fields


def why_not(file: Path | None) -> str:
    """Why the file can't be changed, "" if it can. Blocking."""
    if file is None:
        return "growd was started without a configuration file: start it with --config FILE"
    path = file.resolve()
    if path in [profile_path(name).resolve() for name in PROFILES]:
        name = path.stem
        return (
            f"the profile {name} ships with growd and stays as it is: write it into a file of your own with "
            f"`growd config sample --profile {name} > growd.toml`, and start growd with --config growd.toml"
        )
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        return (
            f"{path} is read-only for growd: change it by hand and restart growd, or let growd write it "
            '(docs/installation.md, "Changing devices on the page")'
        )
    return ""


def changed(path: Path, read: Callable[[str], Config], present: Config, wanted: DeviceChange) -> Changed:
    """The text of the file before and after a change, and what the new one says. Blocking.

    Raises `InvalidDeviceError`, and `ConfigError` for a file that can't be read.
    """
    from growd_machine.setup.editing import with_entry  # noqa: PLC0415  few change devices here

    try:
        before = read_text(path)
    except (OSError, EncodingError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from None
    number = _number(present, wanted)
    place = present.path(wanted.environment, wanted.section)
    text = before
    for options in _unwritten(present, wanted, before):
        text = with_entry(text, place, "", options)
    after = with_entry(text, place, wanted.name, wanted.options)
    try:
        return Changed(before, after, read(after))
    except ConfigError as error:
        raise InvalidDeviceError(error, _fields(error, (*place, number))) from None


def write(file: Path, change: Changed) -> None:
    """Replace the text; the one before is kept beside it. Blocking. Raises OSError."""
    path = file.resolve()
    mode = path.stat().st_mode & 0o777
    write_atomically(path.with_name(f"{path.name}.before"), change.before.encode(), mode)
    write_atomically(path, change.after.encode(), mode)


def device_in(config: Config, wanted: DeviceChange) -> Sensor | Output:
    """The device of a configuration that has it."""
    name = (wanted.options or {})["name"]
    return next(each for each in _devices(config, wanted) if each.name == name)


def devices_of(config: Config) -> list[dict[str, str]]:
    """All that can be changed, as the members of `DeviceChange`."""
    return [
        {"environment": chamber.environment, "section": section, "name": each.name}
        for chamber in chambers_of(config)
        for section in ("sensor", "output")
        for each in getattr(chamber.options, section)
    ]


def _devices(config: Config, wanted: DeviceChange) -> tuple[Sensor, ...] | tuple[Output, ...]:
    chambers = config.chambers()
    if wanted.environment not in chambers:
        raise ConfigError(f"there is no environment {wanted.environment!r}")
    found: tuple[Sensor, ...] | tuple[Output, ...] = getattr(chambers[wanted.environment], wanted.section)
    return found


def _number(present: Config, wanted: DeviceChange) -> int:
    names = [each.name for each in _devices(present, wanted)]
    return names.index(wanted.name) if wanted.name in names else len(names)


def _unwritten(present: Config, wanted: DeviceChange, text: str) -> Iterator[dict[str, Any]]:
    """The usual sensors, if they are in force since the file names none: the list would replace them."""
    if (
        wanted.section == "sensor"
        and present.sensor is Config().sensor
        and "sensor" not in tomllib.loads(text)
    ):
        for each in present.sensor:
            yield {"name": each.name, "kind": each.kind, "interval_s": each.interval_s}


def _fields(error: ConfigError, path: OptionPath) -> dict[str, str]:
    """The faults of the device at a path by its options."""
    found = [each for each in error.findings if each.path[: len(path)] == path and len(each.path) > len(path)]
    return {str(each.path[len(path)]): each.reason for each in found}
