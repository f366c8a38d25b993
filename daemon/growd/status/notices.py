"""What a person should know of a status: causes with their effects, worst first."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from growd.bus.errors import counted
from growd.bus.messages import Quality
from growd.host.hold import Holder
from growd.runtime.text import in_symbols
from growd.status.causes import NOT_SAVED, causes_of
from growd.status.model import Notice, has_little_disk
from growd.store.errors import DISK_FULL
from growd.variable_names import VARIABLE_NAMES
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.status.causes import Key
    from growd.status.model import InterlockStatus, OpenAlert, Severity, Status

_IDS: Final = re.compile(
    r"(?<![\w/.])(" + "|".join(sorted(VARIABLE_NAMES, key=len, reverse=True)) + r")(?![\w/])"
)
"""Ids of variables that are no part of a path."""


class People:
    """How a status names things for people: environments only if there are several."""

    def __init__(self, status: Status) -> None:
        found = {each.environment for each in status.variables}
        found |= {each.environment for each in status.attainment}
        found |= {each.environment for each in status.recipes}
        names = [*(each.name for each in status.devices), *(each.name for each in status.interlocks)]
        found |= {name.partition("/")[0] for name in names}
        self._environment = next(iter(found)) if len(found) == 1 else ""

    def said(self, text: str) -> str:
        """A sentence with the names of variables, and without the only environment."""
        if (only := self._environment) and text.startswith((f"{only}: ", f"{only}/")):
            text = text[len(only) + 1 :].lstrip()
        return with_names(text)

    def place(self, name: str) -> str:
        """The name of a device or variable of an environment, such as "environment_1/scd30_1"."""
        environment, _, rest = name.partition("/")
        rest = variable_name(rest.rpartition("/")[2])
        return rest if environment == self._environment else f"{environment}: {rest}"


def with_names(text: str) -> str:
    """A sentence with the English names of variables in place of their ids, and their units for people."""
    return in_symbols(_IDS.sub(lambda found: variable_name(found[1]), text))


def variable_name(name: str) -> str:
    """The English name of a variable; another name stays as it is."""
    return VARIABLE_NAMES[name][0] if name in VARIABLE_NAMES else name


def held_names(holds: Iterable[str]) -> str:
    """The English names of held outputs; all channels of a lamp are one."""
    names = ("Lamp" if f"light_intensity_{each}" in VARIABLES else variable_name(each) for each in holds)
    return " and ".join(dict.fromkeys(names))


CHECK_DEVICE: Final = "Check its plug, its cable and its power."
_ADVICE: Final = re.compile(r": (?=(?:add|calibrate|check|install|plug|run|set|stop|switch|take) )")
"""What leads to the advice in an error of a driver."""

CAMERA: Final = "device_camera"
"""The code of a failed camera, whose reason says what to check."""
CHECK_DISK: Final = "Check the disk of the data folder."
WAIT: Final = "Points wait on the disk until it takes them."
MAKE_ROOM: Final = "Delete files that nobody needs, or use a larger disk."
SEVERITIES: Final = ("failure", "warning", "note")
_ALERT_SEVERITIES: Final[dict[str, Severity]] = {"critical": "failure", "warning": "warning", "info": "note"}
_MEGABYTE: Final = 1e6


def reason_and_remedy(message: str) -> tuple[str, str]:
    """The error of a device without its advice, and the advice: what to check."""
    reason, *advice = _ADVICE.split(message, maxsplit=1)
    return reason, f"{advice[0][0].upper()}{advice[0][1:]}." if advice else CHECK_DEVICE


def notices_of(status: Status) -> list[Notice]:
    """All notices: causes with their effects, worst first. An alert belongs to the notice of its subject."""
    people = People(status)
    causes = causes_of(status)
    found = _with_alerts([*_own(status, people)], status.alerts, people)
    return sorted(_folded(found, causes), key=lambda each: SEVERITIES.index(each.severity))


def key_of(notice: Notice) -> Key:
    """What a notice is about."""
    return notice.kind, notice.name


def root_of(key: Key, causes: dict[Key, Key], known: Iterable[Key]) -> Key:
    """The first cause of something that is in `known`, or it itself."""
    root, passed, known = key, {key}, set(known)
    while (key := causes.get(key, key)) not in passed:
        passed.add(key)
        root = key if key in known else root
    return root


def _folded(found: list[Notice], causes: dict[Key, Key]) -> Iterator[Notice]:
    """The causes, with what they cause."""
    known = {key_of(each) for each in found}
    effects: dict[Key, list[Notice]] = {}
    for each in found:
        root = root_of(key_of(each), causes, known)
        if root != key_of(each):
            effects.setdefault(root, []).append(each)
    for each in found:
        if root_of(key_of(each), causes, known) == key_of(each):
            below = effects.pop(key_of(each), [])
            worst = min((each, *below), key=lambda notice: SEVERITIES.index(notice.severity)).severity
            yield replace(each, severity=worst, effects=below)


def _with_alerts(found: list[Notice], alerts: list[OpenAlert], people: People) -> list[Notice]:
    """The notices with the open alerts about the same, and the other alerts."""
    ids: dict[Key, list[str]] = {}
    known = {key_of(each) for each in found}
    more = []
    for alert in alerts:
        if alert.about not in known:
            more.append(_of_alert(alert, people))
        elif alert.acknowledged_by is None:
            ids.setdefault(alert.about, []).append(alert.id)
    told = [replace(each, alerts=ids.pop(key_of(each), [])) for each in found]
    return [*told, *more]


def _of_alert(alert: OpenAlert, people: People) -> Notice:
    """An alert as a notice; a mere note once it is acknowledged."""
    since = datetime.fromisoformat(alert.since).timestamp()
    text = people.said(alert.text)
    about = {name: getattr(alert, name) for name in ("variable", "device", "value", "limit", "unit")}
    condition = {"code": f"alert_{alert.kind}", "fields": about, "text": text}
    fields = {"rule": alert.rule, "kind": alert.kind, "text": alert.text, "condition": condition}
    of_alert = partial(Notice, kind="alert", text=text, name=alert.id, since=since, fields=fields)
    if alert.acknowledged_by is not None:
        return of_alert("note", code="alert_acknowledged")
    return of_alert(
        _ALERT_SEVERITIES[alert.severity],
        code="alert",
        alerts=[alert.id],
        service="alerts/acknowledge",
        arguments={"alert": alert.id},
    )


def _own(status: Status, people: People) -> Iterator[Notice]:
    yield from _of_holds(status)
    yield from _of_devices(status, people)
    yield from _of_variables(status, people)
    for lock in status.interlocks:
        if (lock.tripped or lock.needs_reset) and not (lock.is_expected or lock.is_quiet):
            yield _of_interlock(lock, people)
    yield from _of_set_points(status, people)
    yield from _of_store(status)
    yield from _of_connections(status)
    yield from _of_problems(status, people)
    yield from _of_machine(status)
    for name in status.stuck:
        text = f"{people.said(name)} has not advanced in its time: restart growd if this lasts"
        yield Notice("failure", "component", text, name, code="stuck", fields={"component": name})


def _of_holds(status: Status) -> Iterator[Notice]:
    for hold, text in zip(status.holds, status.held, strict=True):
        service = "hold/release" if hold.holder is Holder.PERSON else ""
        fields = {"holder": str(hold.holder), "by": hold.by, "reason": hold.reason}
        of_hold = partial(Notice, "warning", "hold", text, str(hold.holder), hold.since, service)
        yield of_hold(code="held", fields=fields)
    if status.unsafe:
        unsafe: dict[str, Any] = {"outputs": status.unsafe}
        text = f"outputs are held and not known to be safe: {', '.join(status.unsafe)}"
        remedy = "Switch off their power."
        yield Notice("failure", "hold", text, "unsafe", code="held_not_safe", fields=unsafe, remedy=remedy)


def _of_devices(status: Status, people: People) -> Iterator[Notice]:
    """Failed devices. Several devices of one line, all failed, are one failure of the line."""
    lines: dict[str, list[str]] = {}
    for device in status.devices:
        if device.line:
            lines.setdefault(device.line, []).append(device.name)
    failed = {
        each.name: each.counters.last_error or each.message for each in status.devices if each.has_failed
    }
    for line, names in lines.items():
        if len(names) > 1 and failed.keys() >= {*names}:
            fields = {"line": line, "devices": [people.place(name) for name in names]}
            reason, remedy = f"no sensor at {line} answers", f"Check the wiring and the power of {line}."
            code, errors = "line_failed", {failed[name] for name in names}
            if len(errors) == 1:  # that of the bus, such as that it is switched off
                code, (reason, remedy) = "line_unusable", reason_and_remedy(errors.pop())
            text = f"{reason} ({', '.join(fields['devices'])})"
            yield Notice("failure", "line", text, line, code=code, fields=fields, remedy=remedy)
    for device in status.devices:
        if device.has_failed:
            why = failed[device.name]
            fields = {"device": people.place(device.name), "message": why, "line": device.line}
            fields["cause"] = device.code
            is_camera = device.code == CAMERA
            reason, remedy = reason_and_remedy(why)
            words = "takes no photos" if is_camera else f"has failed: {reason}"
            yield Notice(
                "failure",
                "device",
                f"{people.place(device.name)} {words}",
                device.name,
                device.since,
                code="device_failed",
                fields=fields,
                remedy=f"{why[:1].upper()}{why[1:]}." if is_camera else remedy,
                environment=device.name.partition("/")[0],
                variables=device.variables,
            )


def _of_variables(status: Status, people: People) -> Iterator[Notice]:
    """Sensed variables that are not known. What is calculated of them goes without saying."""
    for each in status.variables:
        reading = each.measured
        is_gone = reading is not None and reading.quality in (Quality.FAULT, Quality.STALE)
        if each.is_sensed and is_gone and not VARIABLES[each.variable].is_derived:
            name = f"{each.environment}/{each.variable}"
            yield Notice(
                "warning", "variable", f"{people.place(name)} is unknown", name, code="variable_unknown",
                fields={"variable": each.variable}, environment=each.environment, variables=[each.variable],
            )  # fmt: skip


def _of_interlock(lock: InterlockStatus, people: People) -> Notice:
    environment, _, rule = lock.name.partition("/interlocks/")
    held = held_names(lock.holds)
    code, lead = "interlock", f"{held} held: "
    if not held or lock.stays_on:
        code, lead = "interlock_reason", ""
    hint = "; it stays so until it is reset" if lock.needs_reset else ""
    reason = people.said(lock.reason)
    limits = {each.name: {"value": each.value, "unit": each.unit} for each in lock.limits}
    return Notice(
        "failure" if lock.needs_reset or lock.is_failure else "warning",
        "interlock", f"{lead}{reason}{hint}", lock.name, lock.since,
        f"{lock.name}/reset" if lock.needs_reset else "",
        code=code,
        fields={
            "interlock": rule, "holds": lock.holds, "reads": lock.reads, "limits": limits, "reason": reason,
            "why": {"code": lock.code, "fields": lock.fields, "text": reason},
            "needs_reset": lock.needs_reset, "stays_on": lock.stays_on, "cause": lock.remedy.get("code", ""),
        },
        remedy=lock.advice, environment=environment, variables=lock.reads,
    )  # fmt: skip


def _of_set_points(status: Status, people: People) -> Iterator[Notice]:
    for each in status.attainment:
        if not each.is_lasting:
            continue
        unit, name = VARIABLES[each.variable].unit, f"{each.environment}/{each.variable}"
        yield Notice(
            "failure" if each.is_failure else "warning", "set_point", people.said(each.text), name,
            each.since, code="set_point_missed", environment=each.environment, variables=[each.variable],
            fields={
                "variable": each.variable, "value": each.value, "set_point": each.set_point, "unit": unit,
                "reason": each.reason,
            },
        )  # fmt: skip


def _of_store(status: Status) -> Iterator[Notice]:
    store = status.store
    if store is None:
        return
    fields: dict[str, Any]
    fails, warns = partial(Notice, "failure", "store"), partial(Notice, "warning", "store")
    if store.saving:
        text, fields = f"points can't be saved: {store.saving}", {"reason": store.saving}
        yield fails(text, "saving", code="points_not_saved", fields=fields, remedy=CHECK_DISK)
    if store.has_lost(status.time):
        text, remedy = "points were lost for lack of room", "Make room on the disk of the data folder."
        fields = {"points": store.dropped_ever}
        yield fails(text, "lost", store.dropped_at, code="points_lost", fields=fields, remedy=remedy)
    if store.shipping:
        text = f"the database does not take points: {store.shipping}; {store.waiting} wait"
        fields = {"reason": store.shipping, "points": store.waiting}
        says = fails if DISK_FULL.search(store.shipping) else warns  # nothing but a person ends it
        yield says(text, "database", store.since, code="points_wait", fields=fields, remedy=WAIT)
    if store.rejected:
        text = f"{counted(store.rejected, 'point')} refused by the database"
        fields, service = {"points": store.rejected}, "store/retry_rejected"
        yield warns(text, "rejected", 0.0, service, code="points_refused", fields=fields)
    for text in store.notices:
        yield warns(text, text, code="store_damaged", fields={"text": text})


def _of_connections(status: Status) -> Iterator[Notice]:
    warns = partial(Notice, "warning")
    if (database := status.database) is not None:
        if status.awaits_database:
            yield Notice("note", "database", "the database starts", code="database_starts")
        elif not database.reachable:
            text = f"the database does not answer: {database.reason}"
            fields, remedy = {"reason": database.reason}, "Points wait on the disk until it answers."
            yield warns("database", text, code="database_away", fields=fields, remedy=remedy)
        for index in database.indexes:
            yield Notice("note", "database", str(index), str(index.design), code="index_build")
    for each in status.replications:
        if each.has_failed:
            text = f"the replication of {each.name} fails: {each.last_error}"
            fields = {"replication": each.name, "reason": each.last_error}
            yield warns("replication", text, each.name, each.since, code="replication_fails", fields=fields)
    for channel in status.channels:
        if channel.error:
            text = f"can't send alerts on the channel {channel.name}: {channel.error}"
            fields = {"channel": channel.name, "reason": channel.error}
            yield warns("channel", text, channel.name, code="channel_fails", fields=fields)


def _of_problems(status: Status, people: People) -> Iterator[Notice]:
    """What nodes report beyond that."""
    for each in status.problems:
        if each.code == "set_point_missed":
            continue  # with its numbers above
        severity: Severity = "failure" if each.is_failure else "note" if each.is_note else "warning"
        code, name = each.code or "problem", each.key
        yield Notice(
            severity, "problem", people.said(each.text), name, 0.0, each.service,
            code=code, fields=each.fields, remedy=each.remedy or (CHECK_DISK if code in NOT_SAVED else ""),
            environment=str(each.fields.get("environment", "")),
        )  # fmt: skip


def _of_machine(status: Status) -> Iterator[Notice]:
    machine = status.machine
    if machine is None:
        return
    fields: dict[str, Any]
    warns = partial(Notice, "warning", "machine")
    if has_little_disk(machine):
        free_mb = round((machine.disk_free_bytes or 0) / _MEGABYTE)
        words = f"nearly full: {free_mb} MB are free" if free_mb else "full"
        text, fields = f"the disk of the data folder is {words}", {"free_mb": free_mb}
        severity: Severity = "warning" if free_mb else "failure"
        yield Notice(severity, "machine", text, "disk", code="disk_full", fields=fields, remedy=MAKE_ROOM)
    for trouble in machine.troubles or []:
        text, fields = f"the machine reports {trouble}", {"trouble": trouble}
        remedy = "Use the power supply of the Raspberry Pi, and cool it."
        yield warns(text, trouble, code="machine_trouble", fields=fields, remedy=remedy)
    if not machine.clock_synchronised:
        text = "the machine's clock is not synchronised"
        remedy = "Connect the machine to a network with a time server."
        yield warns(text, "clock", code="clock_not_synchronised", remedy=remedy)
