"""Reads the configuration: a TOML file, environment variables and `--set`, into frozen structs.

`ConfigError` reports all faults at once, each with file, line, section, option, the expected and the given
value. msgspec stops at the first fault, so the structs are walked here.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_origin

import msgspec

from growd.config.base import Section
from growd.config.checks import inconsistencies
from growd.config.device_checks import device_conflicts
from growd.config.devices import Light, Sensor
from growd.config.findings import ConfigError, Finding, Source
from growd.config.outputs import Output
from growd.config.own_options import declared_by, failed_drivers, load_kinds, own_kind, type_of, with_own
from growd.config.root import ChamberOptions, Config
from growd.config.secrets import secret_path
from growd.config.types import described
from growd.device_kinds import OUTPUT_KINDS, SENSOR_KINDS
from growd.own_kinds import measuring_anything, reason_of
from growd.runtime.files import EncodingError, read_text
from growd.runtime.text import most_like

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from growd.config.findings import OptionPath
    from growd_drivers.kinds import DriverOption, OutputKind, SensorKind

    Doubt: TypeAlias = Callable[[Config, Source], Iterable[Finding]]
    """Finds valid options that are probably mistakes. Each reason ends with the remedy."""

ENVIRONMENT_PREFIX: Final = "GROWD_"
_log = logging.getLogger(__name__)
_SEPARATOR: Final = "__"
_OUTPUT_SECTIONS: Final = ("gpio", "light", "output", "simulator")
_ANY_KIND: Final[dict[type[Any], str]] = {Sensor: next(iter(SENSOR_KINDS)), Output: OUTPUT_KINDS[0]}
_NO_LAMP: Final = Light(enabled=False)
_WEB: Final = frozenset({"http", "access", "tls", "couchdb"})
_OF_DATA: Final = frozenset({"store", "retention", "photos", "replication", "alert", "notify"})
_READ_BY_NONE: Final = (_WEB | _OF_DATA).union(
    ("filter", "drift", "combine", "derived", "condition", "control", "light_plan", "recipe")
)
"""Sections that checks of other sections do not read, but for those named here."""

_MEASURED: Final = ("sensor", "output", "light", "camera")
_DEPENDS_ON: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(("http", "access"), _WEB),
    **{
        name: (name,)
        for name in ("couchdb", "tls", "retention", "photos", "mqtt", "simulator", "environment")
    },
    **{name: (name, *_MEASURED) for name in ("condition", "control")},
    "store": ("store", "topics"),
    "notify": ("notify", "mqtt"),
    "replication": ("replication", "environment", "chamber"),
    "alert": ("alert", "notify", "environment", "chamber", *_MEASURED),
    "topics": frozenset(Config.__struct_fields__) - _WEB - _OF_DATA,
}
"""The sections that checks of a section read, where these are few."""

_DEVICES: Final = ("sensor", "output", "light")
_OF_DEVICES: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(("needs", "confirms", "needs_sensor", "channel"), _DEVICES),
    "kind": ("mqtt", "simulator"),
    "range_ppm": ("interlock",),
    "flow_ml_min": ("control",),
}
"""The same of options of devices. Faults of their other options are their own."""

_SECRET: Final = ("url",)
"""Options whose value may contain a password, and is not shown."""

_LOGIN: Final = re.compile("//.*@")
"""A login in an address, in whatever option."""

FILES: Final = frozenset(
    {
        *("credentials_file", "ca_file", "url_file", "password_file"),
        *("certificate", "key", "faults", "replay"),
    }
)
"""Options that are file names."""


def load(
    path: pathlib.Path | None,
    settings: tuple[str, ...] = (),
    *,
    text: str | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str] = MappingProxyType({}),
    checks: Iterable[Callable[[Config], Iterable[Finding]]] = (),
    doubts: Iterable[Doubt] = (),
    warn: Callable[[str], None] = lambda _: None,
    with_drivers: bool = False,
) -> Config:
    """Read a file (None: all defaults). Environment variables override it, and `settings` override both.

    A variable is `GROWD_<SECTION>__<OPTION>`, such as GROWD_HTTP__PORT; a setting `section.option=value`.
    `flags` has the flag of the command line, such as --port, for settings that have one.
    `text` is read in place of that of the file.
    `checks` are further checks of a valid file; `warn` gets a sentence for each finding of `doubts`.
    `with_drivers` loads the drivers of other packages that the file names; a failure is a warning.
    Blocking. Raises `ConfigError` with all faults.
    """
    environ = os.environ if environ is None else environ
    tree = _tree(path, settings, environ, flags, text)
    reader = _Reader(tree.values, with_drivers=with_drivers)
    config: Config = reader.struct(tree.values, Config, ())
    sections = {_section(finding) for finding in reader.findings}
    faulty = {like for name in sections for like in (name, *most_like(name, Config.__struct_fields__)[:1])}
    wanted = (device_conflicts, inconsistencies, *checks)
    found = [finding for check in wanted[1:] for finding in check(config) if _is_sound(finding, faulty)]
    findings = [*reader.findings, *device_conflicts(config), *found]
    of_drivers = [*failed_drivers(config), *_without_drivers(findings, config, wanted)]
    if findings := [reader.placed(finding) for finding in findings if finding not in of_drivers]:
        raise ConfigError(*tree.sentences(findings), findings=findings)
    source = Source(tree.values, environ, path)
    doubtful = [finding for doubt in doubts for finding in doubt(config, source)]
    for sentence in tree.sentences([*(of_drivers if with_drivers else ()), *doubtful]):
        warn(sentence)
    return config


def _is_sound(finding: Finding, faulty: set[str]) -> bool:
    """Whether a finding does not follow from what was left out of the `faulty` sections."""
    section = _section(finding)
    if section in _DEVICES:
        return faulty.isdisjoint(_OF_DEVICES.get(str(finding.path[-1]), ()))
    return faulty.isdisjoint(_DEPENDS_ON.get(section, {section, *faulty - _READ_BY_NONE}))


def _section(finding: Finding) -> str:
    """The section, of further environments as of the first one."""
    return str(finding.path[2] if finding.path[0] == "chamber" and finding.path[2:] else finding.path[0])


def _without_drivers(
    findings: Sequence[Finding], config: Config, checks: Iterable[Callable[[Config], Iterable[Finding]]]
) -> list[Finding]:
    """Those of `findings` that are there only since it is not known what unloaded drivers measure."""
    if not findings or not failed_drivers(config):
        return []
    with measuring_anything():
        lasting = [finding for check in checks for finding in check(config)]
    return [finding for finding in findings if finding not in lasting and not finding.is_numbered]


def load_outputs(
    path: pathlib.Path | None, settings: tuple[str, ...] = (), *, with_drivers: bool = False
) -> Config | None:
    """As `load`, if the sections of outputs are valid; other sections may have faults.

    Returns None if an output may be wrong or missing. Blocking. Never raises, since no fault may prevent
    safe outputs.
    """
    try:
        tree = _tree(path, settings, os.environ)
        reader = _Reader(tree.values, with_drivers=with_drivers)
        config: Config = reader.struct(tree.values, Config, ())
        findings = [*reader.findings, *device_conflicts(config)]
    except ConfigError:
        return None
    except Exception:  # noqa: BLE001  see above
        _log.exception("internal error while reading the outputs of the configuration")
        return None
    return None if any(_concerns_outputs(finding.path) for finding in findings) else config


def _concerns_outputs(path: OptionPath) -> bool:
    """Whether a fault at this path may hide an output: in a section of outputs, or in an unknown one."""
    section = path[2:] if path[0] == "chamber" else path
    return len(section) <= 1 or section[0] in _OUTPUT_SECTIONS


def _tree(
    path: pathlib.Path | None,
    settings: tuple[str, ...],
    environ: Mapping[str, str],
    flags: Mapping[str, str] = MappingProxyType({}),
    text: str | None = None,
) -> _Tree:
    """All given values, unchecked. Raises `ConfigError` if they cannot be read."""
    tree = _Tree(path, text)
    for name, value in sorted(environ.items()):
        if name.startswith(ENVIRONMENT_PREFIX):
            _set_variable(tree, name, value)
    for setting in settings:
        option, separator, value = setting.partition("=")
        tree.set(option if separator else "", value, flags.get(option, f"--set {option}"))
    return tree


def _set_variable(tree: _Tree, name: str, text: str) -> None:
    """Apply an environment variable. Raises `ConfigError` for one with too few underscores."""
    rest = name.removeprefix(ENVIRONMENT_PREFIX).lower()
    if _SEPARATOR in rest:
        tree.set(".".join(rest.split(_SEPARATOR)), text, name)
    for section in msgspec.structs.fields(Config):
        option = rest.removeprefix(f"{section.name}_")
        kind = section_in(section.type)
        if option != rest and kind is not None and option in kind.__struct_fields__:
            meant = f"{ENVIRONMENT_PREFIX}{section.name}{_SEPARATOR}{option}".upper()
            raise ConfigError(f"{name}: sets nothing; write {meant}, with two underscores")


def _is_unicode(text: str) -> bool:
    """Whether the text was valid UTF-8 (PEP 383)."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _value_of(text: str) -> Any:
    """The text as a TOML value, or else as a string."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 else text  # several lines are not a value


def _resolve_files(values: Any, folder: pathlib.Path) -> None:
    """Resolve file names relative to the folder of the configuration.

    A bare name without a file there stays: it may be a systemd credential (`secret_path`).
    """
    if isinstance(values, list):
        for each in values:
            _resolve_files(each, folder)
    elif isinstance(values, dict):
        for name, value in values.items():
            if name in FILES and isinstance(value, str) and value:
                if "/" in value or (not _exists(secret_path(value)) and _exists(folder / value)):
                    values[name] = str(folder.absolute() / value)
            else:
                _resolve_files(value, folder)


def _exists(path: pathlib.Path) -> bool:
    """False also for invalid paths: too long, or with a null character."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


@dataclass
class _Tree:
    """The given values, and where each comes from."""

    path: pathlib.Path | None
    text: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    _text: str = ""
    _origins: dict[OptionPath, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is None:
            return
        if self.path.is_fifo() or self.path.is_char_device():  # it is read again at SIGHUP
            raise ConfigError(f"{self.path}: is not a regular file; write the configuration into one")
        try:
            text = read_text(self.path) if self.text is None else self.text
            self.values = tomllib.loads(text)
        except OSError as error:
            raise ConfigError(f"{self.path}: can't be read: {error.strerror}") from None
        except EncodingError as error:
            raise ConfigError(f"{self.path}:{error.line}: {error}") from None
        except (ValueError, RecursionError) as error:
            from growd.config.hints import not_toml  # noqa: PLC0415  only of an error

            raise ConfigError(not_toml(self.path, error)) from None
        self._text = text
        _resolve_files(self.values, self.path.parent)

    @cached_property
    def _lines(self) -> dict[OptionPath, int]:
        from growd.config.lines import lines_of  # noqa: PLC0415  only findings name lines

        return lines_of(self._text)

    def set(self, option: str, text: str, origin: str) -> None:
        """Set a value: TOML, or else a string. It may be a password, so errors do not show it."""
        section, dot, rest = option.strip().partition(".")
        if not dot or not section or not rest:
            raise ConfigError(f"{origin}: must have the form section.option=value")
        if not _is_unicode(option + text):
            raise ConfigError(f"{origin}: is not UTF-8")
        place = self.values.setdefault(section, {})
        if not isinstance(place, dict):
            raise ConfigError(f"{origin}: [{section}] is a list and cannot be set this way; use a file")
        *inner, last = rest.split(".")
        for name in inner:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{origin}: {name} in [{section}] has no options beneath it")
        place[last] = _value_of(text)
        self._origins[section, *inner, last] = origin

    def line(self, path: OptionPath) -> int:
        """The line of an option, or of its section; 0 if neither is in the file."""
        return next(
            (self._lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self._lines), 0
        )

    def sentences(self, findings: Iterable[Finding]) -> list[str]:
        """Each finding with its origin, in the order of the file."""
        ordered = sorted(findings, key=lambda finding: self.line(finding.path))
        return [f"{self.origin(each.path)}: {each.sentence}" for each in ordered]

    def origin(self, path: OptionPath) -> str:
        """Where an option, or its section, was set: file and line, variable or setting."""
        for end in range(len(path), 0, -1):
            place = path[:end]
            if place in self._origins:
                return self._origins[place]
            if place in self._lines:
                return f"{self.path}:{self._lines[place]}"
            if inner := next((each for each in self._origins if each[:end] == place), None):
                return self._origins[inner]
        return str(self.path) if self.path is not None else "the command line"


class _Reader:
    """Converts the values to structs. Faulty values are left out and reported in `findings`."""

    def __init__(self, root: Mapping[str, Any], *, with_drivers: bool) -> None:
        self._root = root
        self._with_drivers = with_drivers
        if with_drivers:
            load_kinds(root)
        self.findings: list[Finding] = []
        self._kept: dict[OptionPath, list[int]] = {}  # the numbers of the valid entries of each list

    def placed(self, finding: Finding) -> Finding:
        """A finding of a check, with the numbers that entries have in the file."""
        path = finding.path
        for end, number in enumerate(path):
            if isinstance(number, int) and path[:end] in self._kept and not finding.is_numbered:
                path = (*path[:end], self._kept[path[:end]][number], *path[end + 1 :])
        return msgspec.structs.replace(finding, path=path)

    def struct(self, tree: Mapping[str, Any], kind: type[Any], path: OptionPath) -> Any:
        """A section without its faulty values; None if a required one is missing."""
        own = own_kind(tree, kind, is_loaded=self._with_drivers)
        if own is not None:
            return self._own(tree, kind, own, path)
        return self._struct(tree, kind, path)

    def _struct(
        self, tree: Mapping[str, Any], kind: type[Any], path: OptionPath, further: Iterable[str] = ()
    ) -> Any:
        """The same. Options in `further` are known too."""
        fields = {each.name: each for each in msgspec.structs.fields(kind)}
        for name in tree:
            if name not in fields:
                self._unknown(name, [*fields, *further], kind, path)
        values: dict[str, Any] = {}
        for name, each in fields.items():
            if name in tree:
                before = len(self.findings)
                value = self._value(tree[name], each.type, (*path, name))
                if value is not None and (len(self.findings) == before or issubclass(kind, ChamberOptions)):
                    values[name] = value
            elif each.required:
                self._note((*path, name), f"is missing; it is {described(each.type)}")
        if any(each.required and each.name not in values for each in fields.values()):
            return None
        return kind(**values)

    def _own(
        self, tree: Mapping[str, Any], section: type[Any], kind: SensorKind | OutputKind, path: OptionPath
    ) -> Any:
        """A section of a kind of another package, with the options that it declares."""
        declared = declared_by(kind)
        rest = {name: value for name, value in tree.items() if name not in declared}
        if reason_of(kind):
            own = {name: rest.pop(name) for name in [*rest] if name not in section.__struct_fields__}
        else:
            own = dict(self._own_options(tree, declared, path))
        found = self._struct({**rest, "kind": _ANY_KIND[section]}, section, path, declared)
        return None if found is None else with_own(found, tree["kind"], own)

    def _own_options(
        self, tree: Mapping[str, Any], declared: Mapping[str, DriverOption], path: OptionPath
    ) -> Iterator[tuple[str, Any]]:
        """The valid values of the options that a kind declares."""
        for name, option in declared.items():
            if name in tree:
                value = self._leaf(tree[name], type_of(option), (*path, name))
                if value is not None:
                    yield name, value
            elif option.default is None:
                self._note((*path, name), f"is missing; it is {described(type_of(option))}")
            else:
                yield name, option.default

    def _value(self, value: Any, kind: Any, path: OptionPath) -> Any:
        """A value of a type, None if it is faulty."""
        section = section_in(kind)
        if section is None:
            return self._leaf(value, kind, path)
        origin = get_origin(kind)
        if origin is tuple:
            return self._list(value, section, path)
        if not isinstance(value, dict):
            self._wrong(path, "a table", value)
            return None
        if origin is dict:
            return dict(self._entries(value, kind, section, path))
        before = len(self.findings)
        found = self.struct(value, section, path)
        # the default lamp has pins that would seem to conflict
        return _NO_LAMP if section is Light and len(self.findings) > before else found

    def _list(self, value: Any, section: type[Any], path: OptionPath) -> tuple[Any, ...] | None:
        """The valid sections of a list."""
        if not isinstance(value, list):
            self._wrong(path, f"a list of tables, such as [[{'.'.join(map(str, path))}]]", value)
            return ()
        found = []
        for number, each in enumerate(value):
            before = len(self.findings)
            struct = None
            if isinstance(each, dict):
                struct = self.struct(each, section, (*path, number))
            else:
                self._wrong((*path, number), "a table", each)
            if len(self.findings) == before:
                found.append(struct)
                self._kept.setdefault(path, []).append(number)
        return tuple(found)

    def _entries(
        self, value: Mapping[str, Any], kind: Any, section: type[Any], path: OptionPath
    ) -> Iterator[tuple[str, Any]]:
        """The sections of a table by name."""
        name_kind, _ = get_args(kind)
        for name, each in value.items():
            if self._leaf(name, name_kind, (*path, name)) is None:
                continue
            if not isinstance(each, dict):
                self._wrong((*path, name), "a table", each)
                continue
            yield name, self.struct(each, section, (*path, name))

    def _leaf(self, value: Any, kind: Any, path: OptionPath) -> Any:
        if get_origin(kind) is dict and isinstance(value, dict):
            _, inner = get_args(kind)
            found = {name: self._leaf(each, inner, (*path, name)) for name, each in value.items()}
            return {name: each for name, each in found.items() if each is not None}
        item = get_args(kind)[:1] if get_origin(kind) is tuple else ()
        if item and isinstance(value, list):
            return tuple(self._leaf(each, item[0], (*path, number)) for number, each in enumerate(value))
        with contextlib.suppress(msgspec.ValidationError):
            found = msgspec.convert(value, kind)
            if not isinstance(found, float) or math.isfinite(found):
                return found
        self._wrong(path, described(kind), value)
        return None

    def _wrong(self, path: OptionPath, expected: str, value: Any) -> None:
        is_secret = path[-1] in _SECRET or (isinstance(value, str) and _LOGIN.search(value))
        got = "a value that may contain a password" if is_secret else repr(value)
        from growd.config.hints import hint_for  # noqa: PLC0415  only of an error

        self._note(path, f"must be {expected}, got {got}{hint_for(path, expected, value)}")

    def _unknown(self, name: str, known: list[str], kind: type[Any], path: OptionPath) -> None:
        in_chamber = path[:1] == ("chamber",) and len(path) == 2  # noqa: PLR2004  chamber, id
        is_section = kind is Config or in_chamber
        like = most_like(name, known)
        hint = f"; is it {like[0]}?" if like else ""
        what = "section" if is_section else "option"
        listed = f"; known are {', '.join(known)}" if not like else ""
        self._note((*path, name), f"unknown {what}{hint}{listed}")

    def _note(self, path: OptionPath, reason: str) -> None:
        self.findings.append(Finding(path, reason, is_numbered=True, entry=self._entry(path)))

    def _entry(self, path: OptionPath) -> str:
        """The name of the list entry on `path`, "" for none."""
        place: Any = self._root
        for part in path:
            if isinstance(part, int):
                name = place[part].get("name") if isinstance(place[part], dict) else None
                return name if isinstance(name, str) and name.isprintable() else ""
            place = place.get(part) if isinstance(place, dict) else None
            if place is None:
                break
        return ""


def section_in(kind: Any) -> type[Any] | None:
    """The section that a type is, or is a list or table of."""
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, Section):
            return each
    return None
