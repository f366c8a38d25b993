"""Kinds of devices that other packages bring, as entry points.

They are listed without an import. Only kinds that the configuration names are loaded, in a thread with a time
limit. A kind that does not load becomes an `UnloadedKind`, with the reason.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.device_kinds import OUTPUT_KINDS, OWN_OUTPUTS, SENSOR_KINDS
from growd.runtime.text import words_of
from growd.variables import VARIABLES
from growd_drivers.kinds import (
    API_VERSION,
    CalibrationKind,
    DriverOption,
    OutputKind,
    SensorKind,
    UnloadedKind,
    UnloadedOutput,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from importlib.metadata import EntryPoint

SENSORS: Final = "growd.sensors"
OUTPUTS: Final = "growd.outputs"
LOAD_S: Final = 20.0
"""How long the import of a driver may take, in real seconds: Blinka takes several on a small Pi."""

BUILT_IN: Final = frozenset(SENSOR_KINDS)
"""growd's own kinds of sensors."""

_TYPES: Final = (bool, int, float, str)
_TAKEN: Final = frozenset(
    ("name", "kind", "bus", "address", "port", "device", "interval_s", "sleep", "monotonic", "drives")
)
"""Names of options and arguments that a kind can't use for its own options."""

_ADDRESSES: Final = range(0x08, 0x78)  # not reserved: NXP UM10204, section 3.1.12
_OPENINGS: Final[dict[type, tuple[str, ...]]] = {
    SensorKind: ("i2c", "serial", "gpio", "none"),
    OutputKind: ("i2c", "serial", "none"),
}
_SIMULATED: Final[dict[type, tuple[str, ...]]] = {SensorKind: ("i2c", "serial"), OutputKind: ("i2c",)}
"""On what a kind can have a simulated chip."""

_final: set[tuple[str, str]] = set()


class Offer(msgspec.Struct, frozen=True):
    """A kind that an installed package offers."""

    name: str
    package: str
    version: str
    entry: EntryPoint

    def __str__(self) -> str:
        return f"{self.name} of {self.package} {self.version}"


def offers(group: str) -> list[Offer]:
    """What the installed packages offer, sorted. Blocking: reads the metadata of all packages."""
    from importlib.metadata import entry_points  # noqa: PLC0415  only for kinds of other packages

    found = []
    for entry in entry_points(group=group):
        package, version = ("?", "?") if entry.dist is None else (entry.dist.name, entry.dist.version)
        found.append(Offer(entry.name, package, version, entry))
    return sorted(found, key=lambda offer: (offer.name, offer.package))


def sensor_kind(name: str, *, is_loaded: bool = True) -> SensorKind | None:
    """The kind of that name, which is in `SENSOR_KINDS` from then on; None if no package offers it.

    Unless `is_loaded`, nothing is imported. Blocking, up to `LOAD_S`. Never raises for a bad driver.
    """
    return SENSOR_KINDS.get(name) if _is_in(SENSOR_KINDS, SENSORS, name, is_loaded=is_loaded) else None


def output_kind(name: str, *, is_loaded: bool = True) -> OutputKind | None:
    """The same for a kind of output of another package, which is in `OWN_OUTPUTS` from then on."""
    return OWN_OUTPUTS.get(name) if _is_in(OWN_OUTPUTS, OUTPUTS, name, is_loaded=is_loaded) else None


def load_side_by_side(sensors: Iterable[str], outputs: Iterable[str]) -> None:
    """Load the kinds of these names that packages offer, so that several that hang take `LOAD_S` together."""
    calls: list[Callable[[], object]] = [partial(sensor_kind, name) for name in set(sensors)]
    calls += [partial(output_kind, name) for name in set(outputs)]
    threads = [threading.Thread(target=call, name="load kind", daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _is_in(table: dict[str, Any], group: str, name: str, *, is_loaded: bool) -> bool:
    """Put the kind into its table, if there is one."""
    if name in _built_in(group) or (group, name) in _final:
        return True
    offered = [offer for offer in offers(group) if offer.name == name]
    if not offered:
        return False
    if is_loaded:
        _final.add((group, name))
        table[name] = loaded(offered)
    else:
        table[name] = _unloaded(offered[0], f"the driver {offered[0]} is not loaded")
    return True


def _built_in(group: str) -> Collection[str]:
    return BUILT_IN if group == SENSORS else OUTPUT_KINDS


@contextmanager
def measuring_anything() -> Iterator[None]:
    """For the body, kinds that could not be loaded measure every variable, and outputs have a timer."""
    was = {name: kind for name, kind in SENSOR_KINDS.items() if isinstance(kind, UnloadedKind)}
    outputs = {name: kind for name, kind in OWN_OUTPUTS.items() if isinstance(kind, UnloadedOutput)}
    OWN_OUTPUTS.update({name: replace(kind, timer_s=60.0) for name, kind in outputs.items()})
    anything = {name: name for name, variable in VARIABLES.items() if not variable.is_output}
    SENSOR_KINDS.update({name: replace(kind, variables=anything) for name, kind in was.items()})
    try:
        yield
    finally:
        SENSOR_KINDS.update(was)
        OWN_OUTPUTS.update(outputs)


def forget(name: str) -> None:
    """Load the kinds of that name again at their next use."""
    _final.difference_update({(SENSORS, name), (OUTPUTS, name)})
    OWN_OUTPUTS.pop(name, None)
    if name not in BUILT_IN:
        SENSOR_KINDS.pop(name, None)


def loaded(offered: list[Offer]) -> SensorKind | OutputKind:
    """The kind that packages offer under one name; an unloaded one if it can't be used."""
    offer = offered[0]
    try:
        return _loaded(*offered)
    except UnusableError as error:
        return _unloaded(offer, f"the driver {offer} can't be loaded: {error}")


def reason_of(kind: SensorKind | OutputKind | None) -> str:
    """Why a kind is not loaded, "" if it is."""
    return kind.reason if isinstance(kind, UnloadedKind | UnloadedOutput) else ""


def _unloaded(offer: Offer, reason: str) -> UnloadedKind | UnloadedOutput:
    if offer.entry.group == OUTPUTS:
        return UnloadedOutput(offer.name, "", 0, reason=reason)
    return UnloadedKind(offer.name, "", {}, reason=reason)


def faults_of(kind: SensorKind | OutputKind) -> Iterator[str]:
    """What is wrong with the description of a kind of another package."""
    if kind.api != API_VERSION:
        yield (
            f"it was written for version {kind.api} of growd's interface for drivers, and this growd has "
            f"{API_VERSION}; install a version of the package that fits"
        )
        return
    yield from _wrong_types(kind)
    if isinstance(kind, SensorKind):
        unknown = [name for name in kind.variables.values() if name and name not in VARIABLES]
        if unknown:
            yield f"it measures {', '.join(unknown)}, which growd does not know; docs/variables.md lists them"
        if not kind.variables:
            yield "it measures no variable"
        yield from _faults_of_calibrations(kind)
    if kind.opens not in _OPENINGS[type(kind)]:
        yield f"it opens {kind.opens!r}; expected one of {', '.join(_OPENINGS[type(kind)])}"
    elif kind.chip and not can_have_chip(kind):
        there = " and ".join(_SIMULATED[type(kind)])
        yield f"it opens {kind.opens!r}, where it can't have a simulated chip; it can on {there}"
    if kind.opens == "i2c" and not kind.addresses:
        yield "it has no I2C address"
    for option in kind.own_options:
        yield from _faults_of_option(option)


def _faults_of_calibrations(kind: SensorKind) -> Iterator[str]:
    """Each calibration is in the unit of a variable. In ppm it is one of CO2, which interlocks judge."""
    units = {VARIABLES[name].unit for name in kind.variables.values() if name in VARIABLES}
    for each in kind.calibrations:
        if each.unit not in units:
            yield f"its calibration {each.name} is in {each.unit}, and it measures in {', '.join(units)}"


def _faults_of_option(option: DriverOption) -> Iterator[str]:
    if not option.name.isidentifier():
        yield f"its option {option.name!r} must be a name of letters, digits and _"
    if option.name in _TAKEN:
        yield f"its option {option.name} must have another name, since growd uses this one"
    if option.kind not in _TYPES:
        yield f"its option {option.name} must be a bool, int, float or str"


def _wrong_types(kind: SensorKind | OutputKind) -> Iterator[str]:
    """What growd reads of a kind outside of its driver has the right types."""
    checks: dict[str, Callable[[], bool]] = {
        "part": lambda: isinstance(kind.part, str) and bool(kind.part),
        "driver": lambda: isinstance(kind.driver, str),
        "chip": lambda: isinstance(kind.chip, str),
        "addresses": lambda: all(address in _ADDRESSES for address in kind.addresses),
        "own_options": lambda: all(isinstance(option, DriverOption) for option in kind.own_options),
        **(_of_sensor(kind) if isinstance(kind, SensorKind) else _of_output(kind)),
    }
    for name, is_right in checks.items():
        try:
            fits = is_right()
        except Exception:  # noqa: BLE001  whatever the package put there
            fits = False
        if not fits:
            yield f"its {name} is not as growd_drivers.kinds describes it"
            return


def _of_sensor(kind: SensorKind) -> dict[str, Callable[[], bool]]:
    measures = kind.measurement_interval_s
    return {
        "variables": lambda: all(isinstance(each, str) for pair in kind.variables.items() for each in pair),
        "options": lambda: all(isinstance(name, str) for name in (*kind.options, *kind.needs, *kind.units)),
        "ranges": lambda: (
            all(least < most for least, most in kind.ranges.values())
            and kind.ranges.keys() <= kind.variables.keys()
        ),
        "range_option": lambda: (
            kind.range_option
            in ("", "range_ppm", *(each.name for each in kind.own_options if each.kind in (int, float)))
        ),
        "range_hint": lambda: isinstance(kind.range_hint, str),
        "same_for_s": lambda: kind.same_for_s >= 0,
        "warm_up_s": lambda: 0 <= kind.warm_up_s < inf,
        "warm_up_values": lambda: all(isinstance(value, int | float) for value in kind.warm_up_values),
        "most_jump": lambda: kind.most_jump > 0,
        "calibrations": lambda: all(isinstance(each, CalibrationKind) for each in kind.calibrations),
        "measurement_interval_s": lambda: measures is None or measures(2.0) > 0,
    }


def _of_output(kind: OutputKind) -> dict[str, Callable[[], bool]]:
    return {
        "can_dim": lambda: isinstance(kind.can_dim, bool),
        "timer_s": lambda: kind.timer_s is None or (0 < kind.timer_s < inf and not kind.takes_valid_s),
        "takes_valid_s": lambda: isinstance(kind.takes_valid_s, bool),
    }


def can_have_chip(kind: SensorKind | OutputKind) -> bool:
    """Whether a simulated chip can be where the kind is."""
    return kind.opens in _SIMULATED[type(kind)]


def _loaded(offer: Offer, *others: Offer) -> SensorKind | OutputKind:
    """Raises `UnusableError`."""
    if others:
        packages = " and ".join(each.package for each in (offer, *others))
        raise UnusableError(f"{packages} both have this kind; uninstall one of them")
    if offer.name in _built_in(offer.entry.group):
        raise UnusableError("growd has a kind of this name; its package must choose another")
    found = in_time(offer.entry.load, "its import failed")
    wanted = OutputKind if offer.entry.group == OUTPUTS else SensorKind
    if type(found) is not wanted:
        raise UnusableError(f"{offer.entry.value} is no {wanted.__name__} of growd_drivers.kinds")
    for fault in faults_of(found):
        raise UnusableError(fault)
    if not callable(in_time(lambda: resolve_name(found.driver), f"{found.driver} can't be imported")):
        raise UnusableError(f"its driver {found.driver} is no class")
    return found


def in_time(function: Callable[[], Any], failure: str) -> Any:
    """The result of a call of another package.

    Raises `UnusableError` for any error, SystemExit included, and after `LOAD_S`.
    """
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(function())
        except BaseException as error:  # noqa: BLE001  no driver may end growd
            errors.append(error)

    thread = threading.Thread(target=work, name="load driver", daemon=True)
    thread.start()
    thread.join(LOAD_S)
    if errors:
        raise UnusableError(f"{failure}: {words_of(errors[0])}")
    if not outcome:
        raise UnusableError(f"{failure}: it took longer than {LOAD_S:g} s")
    return outcome[0]


class UnusableError(Exception):
    """Why a kind can't be used."""
