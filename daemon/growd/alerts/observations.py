"""What rules see of the world: the last messages on the bus, and what the store tells of itself."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

from growd.alerts.messages import Place
from growd.alerts.rules import Level, band_level
from growd.bus.errors import UnknownNameError, counted
from growd.bus.messages import Quality
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.config import alerts as settings

SILENT_S: Final = 60.0
"""A recipe that runs tells its state each second; in seconds of the clock."""

LOSS_S: Final = 3_600.0
"""For how long after the last loss of points it is told that some are lost; in seconds of the clock."""

MACHINE_S: Final = 60.0
"""Disk and temperature are looked at as often, in seconds of the clock."""

_OF_MACHINE: Final = ("disk_full", "too_hot")
_MEGABYTE: Final = 1e6
_HYSTERESIS_MB: Final = 100.0
_HYSTERESIS_DEGC: Final = 5.0
_FAILED: Final = 2  # the level of a diagnostic status
_WORDS: Final = {Quality.FAULT: "its sensor is at fault", Quality.STALE: "nothing new has come"}


_NUMBERS: Final = re.compile(r"\d+")
_MOST_PROBLEMS: Final = 100  # that are remembered
_LEVELS: Final = {
    "idle": Level.CLEAR,
    "reached": Level.CLEAR,
    "settling": Level.BETWEEN,
    "missed": Level.RAISED,
}
"""What the states of a set point (`growd.control.attainment`) are to an alert."""

_NOWHERE: Final = Place()


@dataclass(frozen=True, slots=True)
class Observation:
    """How it is with one thing that a rule watches, which `subject` names.

    `text` says it in plain words.
    """

    subject: str
    level: Level
    text: str
    place: Place = _NOWHERE


class World:
    """What can be seen on the bus; `measured` has the variables that are, by environment."""

    def __init__(self, bus: Bus, measured: Mapping[str, Collection[str]]) -> None:
        self._bus = bus
        self._measured = measured
        self._indexed = -1
        self._devices: list[tuple[str, str, str]] = []
        self._interlocks: list[tuple[str, str, str]] = []
        self._spoken: dict[str, tuple[int, float]] = {}
        self._prepared_at = -inf
        self._lost = 0
        self._lost_at: float | None = None
        self._seen_problems: dict[str, str] = {}
        self._looks: dict[str, Callable[[settings.AlertOptions], Iterator[Observation]]] = {
            "out_of_band": self._band,
            "set_point_missed": self._set_points,
            "no_value": self._values,
            "device_failed": self._failed_devices,
            "interlock": self._tripped,
            "recipe_stalled": self._stalled,
            "outbox": self._outbox,
            "database": self._database,
            "points_lost": self._losses,
            "problem": self._problems,
            "replication": self._replications,
            "disk_full": self._disk,
            "too_hot": self._heat,
            "recipe_ended": lambda _: iter(()),  # it happens once, so it is heard and not looked for
        }

    async def prepare(self, rules: Iterable[settings.AlertOptions]) -> None:
        """Have the machine looked at, where a rule goes by it and the last look is long ago."""
        now = self._bus.clock.monotonic()
        if any(rule.kind in _OF_MACHINE for rule in rules) and now - self._prepared_at >= MACHINE_S:
            self._prepared_at = now
            with contextlib.suppress(UnknownNameError):
                await self._bus.find_node("machine").prepare()

    def look(self, rule: settings.AlertOptions) -> list[Observation]:
        """How it is with all that a rule watches."""
        return list(self._looks[rule.kind](rule))

    def _environments(self, rule: settings.AlertOptions) -> list[str]:
        return [name for name in self._measured if not rule.environment or rule.environment == name]

    def _last(self, topic: str) -> Message | None:
        try:
            return self._bus.topics.get(topic).last
        except UnknownNameError:
            return None

    # variables

    def _band(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        for environment in self._environments(rule):
            if rule.variable in self._measured[environment]:
                yield self._in_band(rule, environment)

    def _in_band(self, rule: settings.AlertOptions, environment: str) -> Observation:
        name, unit = rule.variable, VARIABLES[rule.variable].unit
        last = self._last(f"{environment}/measured/{name}")
        place = Place(environment=environment, variable=name, unit=unit)
        if last is None or last.quality is not Quality.OK:
            return Observation(environment, Level.UNKNOWN, f"{environment}: {name} is not known", place)
        value: float = last.value
        low, high, of_set_point = self._limits(rule, environment)
        level = band_level(value, low, high, rule.hysteresis)
        limit, words = None, ""
        if low is not None and value < low:
            limit, words = low, f", below {low:.6g} {unit}{of_set_point}"
        elif high is not None and value > high:
            limit, words = high, f", above {high:.6g} {unit}{of_set_point}"
        shown = f"{value:.{VARIABLES[name].precision}f}"
        place = Place(environment=environment, variable=name, value=value, limit=limit, unit=unit)
        return Observation(environment, level, f"{environment}: {name} is {shown} {unit}{words}", place)

    def _limits(
        self, rule: settings.AlertOptions, environment: str
    ) -> tuple[float | None, float | None, str]:
        """The band, the narrower of limits and distance from the set point, and words for the latter."""
        low, high = rule.below, rule.above
        if rule.deviation is None:
            return low, high, ""
        last = self._last(f"{environment}/desired/{rule.variable}")
        if last is None or last.value is None:
            return low, high, ""
        wanted: float = last.value
        near_low, near_high = wanted - rule.deviation, wanted + rule.deviation
        low = near_low if low is None else max(low, near_low)
        high = near_high if high is None else min(high, near_high)
        return low, high, f" (set point {wanted:.6g})"

    def _set_points(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        for environment in self._environments(rule):
            for each in self._told_by(f"{environment}/attainment", "attainment") or []:
                name = each["variable"]
                if rule.variable in ("", name):
                    value, limit = each["value"], each["set_point"]
                    place = Place(environment, "", name, value, limit, VARIABLES[name].unit)
                    level = _LEVELS[each["state"]]
                    yield Observation(f"{environment}/{name}", level, each["text"], place)

    def _values(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        for environment in self._environments(rule):
            for name in sorted(self._measured[environment]):
                if not rule.variable or rule.variable == name:
                    yield self._has_value(environment, name)

    def _has_value(self, environment: str, name: str) -> Observation:
        last = self._last(f"{environment}/measured/{name}")
        place = Place(environment=environment, variable=name, unit=VARIABLES[name].unit)
        subject = f"{environment}/{name}"
        if last is not None and last.quality is Quality.OK:
            return Observation(subject, Level.CLEAR, f"{environment}: {name} is measured", place)
        if last is not None and last.quality is Quality.WARM_UP:
            return Observation(subject, Level.BETWEEN, f"{environment}: {name} warms up", place)
        why = "no sample has ever come" if last is None else _WORDS[last.quality]
        return Observation(subject, Level.RAISED, f"{environment}: {name} is not measured: {why}", place)

    # devices, interlocks, recipes

    def _index(self) -> None:
        """Find the topics of devices and interlocks, where topics have come since the last look."""
        topics = self._bus.topics
        if len(topics) == self._indexed:
            return
        self._indexed = len(topics)
        self._devices, self._interlocks = [], []
        for topic in topics.names():
            parts = topic.split("/")
            if len(parts) != 3 or parts[0] not in self._measured:  # noqa: PLR2004  environment, folder, name
                continue
            if parts[1] == "diagnostics":
                self._devices.append((parts[0], parts[2], topic))
            elif parts[1] == "interlocks":
                self._interlocks.append((parts[0], parts[2], topic))

    def _failed_devices(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        self._index()
        for environment, device, topic in self._devices:
            last = self._last(topic)
            if last is None or not _is_of(rule, environment, device):
                continue
            has_failed = last.value["level"] >= _FAILED
            words = f"has failed: {last.value['message']}" if has_failed else "has not failed"
            text = f"{environment}: the device {device} {words}"
            level = Level.RAISED if has_failed else Level.CLEAR
            yield Observation(topic, level, text, Place(environment=environment, device=device))

    def _tripped(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        self._index()
        for environment, name, topic in self._interlocks:
            last = self._last(topic)
            if last is None or not _is_of(rule, environment, name):
                continue
            state = last.value
            hint = "; it holds until someone resets it" if state["needs_reset"] else ""
            words = f"has tripped: {state['reason']}{hint}" if state["tripped"] else "has let go"
            level = Level.RAISED if state["tripped"] else Level.CLEAR
            text = f"{environment}: the interlock {name} {words}"
            yield Observation(topic, level, text, Place(environment=environment, device=name))

    def _stalled(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        now = self._bus.clock.monotonic()
        for environment in self._environments(rule):
            last = self._last(f"{environment}/recipe_state")
            if last is None:
                continue
            number, at = self._spoken.get(environment, (0, now))
            if number != last.number:
                number, at = self._spoken[environment] = last.number, now
            state, recipe = last.value["state"], last.value["recipe_id"]
            is_silent = state == "running" and now - at > SILENT_S
            words = {"idle": "no recipe runs", "paused": f"the recipe {recipe} is paused"}.get(
                state, f"the recipe {recipe} {'does not go on' if is_silent else 'runs'}"
            )
            level = Level.RAISED if is_silent or state == "paused" else Level.CLEAR
            yield Observation(environment, level, f"{environment}: {words}", Place(environment=environment))

    # the store

    def _store(self) -> Any:
        return self._told_by("store", "store")

    def _told_by(self, node: str, detail: str) -> Any:
        try:
            return self._bus.find_node(node).details().get(detail)
        except UnknownNameError:
            return None

    def _outbox(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        store = self._store()
        if store is not None:
            waiting = store["waiting"]
            level = Level.RAISED if waiting > rule.points else Level.CLEAR
            more = f", more than {rule.points}" if waiting > rule.points else ""
            text = f"{counted(waiting, 'point')} on the way to the database{more}"
            yield Observation(
                "outbox", level, text, Place(value=float(waiting), limit=float(rule.points), unit="points")
            )

    def _database(self, _: settings.AlertOptions) -> Iterator[Observation]:
        store = self._store()
        if store is not None:
            level = Level.RAISED if store["shipping"] else Level.CLEAR
            text = (
                f"the database takes no points: {store['shipping']}" if store["shipping"] else "it takes them"
            )
            yield Observation("database", level, text)

    def _losses(self, _: settings.AlertOptions) -> Iterator[Observation]:
        store = self._store()
        if store is None:
            return
        now = self._bus.clock.monotonic()
        lost = store["dropped"]
        if lost > self._lost:
            self._lost_at = now
        self._lost = lost
        is_recent = self._lost_at is not None and now - self._lost_at < LOSS_S
        found = (
            ("lost", is_recent, f"{counted(lost, 'point')} lost for want of room since growd started"),
            (
                "refused",
                bool(store["rejected"]),
                f"{counted(store['rejected'], 'point')} refused by the database",
            ),
            ("unsaved", bool(store["saving"]), f"the disk takes no points: {store['saving']}"),
        )
        for subject, is_raised, text in found:
            level = Level.RAISED if is_raised else Level.CLEAR
            yield Observation(subject, level, text if is_raised else "no more at present")

    def _replications(self, _: settings.AlertOptions) -> Iterator[Observation]:
        for each in self._told_by("replication", "replications") or []:
            is_failing = each["state"] == "failing"
            words = f"fails: {each['last_error']}" if is_failing else f"is {each['state']}"
            level = Level.RAISED if is_failing else Level.CLEAR
            yield Observation(each["name"], level, f"the replication of {each['name']} {words}")

    def _problems(self, _: settings.AlertOptions) -> Iterator[Observation]:
        """By their texts without the numbers, which may change while a problem lasts."""
        found = {
            _NUMBERS.sub("#", problem["text"]): problem["text"]
            for problem in self._bus.problems()
            if problem["is_failure"]
        }
        for subject, text in found.items():
            yield Observation(subject, Level.RAISED, text)
        for subject in self._seen_problems.keys() - found:
            yield Observation(subject, Level.CLEAR, f"over: {self._seen_problems[subject]}")
        self._seen_problems |= found
        for subject in list(self._seen_problems)[:-_MOST_PROBLEMS]:
            del self._seen_problems[subject]

    # the machine

    def _disk(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        machine = self._told_by("machine", "machine") or {}
        free = machine.get("disk_free_bytes")
        if free is None:
            return
        free_mb = free / _MEGABYTE
        level = band_level(free_mb, rule.free_mb, None, _HYSTERESIS_MB)
        words = f", less than {rule.free_mb:g} MB" if free_mb < rule.free_mb else ""
        text = f"{free_mb:.0f} MB are free on the disk of the data folder{words}"
        yield Observation("disk", level, text, Place(value=free_mb, limit=rule.free_mb, unit="MB"))

    def _heat(self, rule: settings.AlertOptions) -> Iterator[Observation]:
        machine = self._told_by("machine", "machine") or {}
        temperatures = machine.get("temperatures_degc")
        if temperatures:
            name, value = max(temperatures.items(), key=lambda item: float(item[1]))
            level = band_level(value, None, rule.above_degc, _HYSTERESIS_DEGC)
            words = f", above {rule.above_degc:g} degC" if value > rule.above_degc else ""
            place = Place(device=name, value=value, limit=rule.above_degc, unit="degC")
            yield Observation("temperature", level, f"the machine has {value:.1f} degC{words}", place)
        troubles = machine.get("troubles")
        if troubles is not None:
            level = Level.RAISED if troubles else Level.CLEAR
            text = f"the machine tells of {', '.join(troubles)}" if troubles else "the machine tells of none"
            yield Observation("firmware", level, text)


def _is_of(rule: settings.AlertOptions, environment: str, device: str) -> bool:
    return rule.environment in ("", environment) and rule.device in ("", device)
