"""The status of a daemon as tables and lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from growd.bus.errors import counted
from growd.runtime.text import columns, duration, in_symbols, moment, symbol
from growd.status.model import has_little_disk
from growd.status.notices import notices_of, reason_and_remedy, variable_name
from growd.status.summary import verdict_of
from growd_cli.output import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from growd.host.machine import MachineStatus
    from growd.status.model import (
        BridgeStatus,
        CloudStatus,
        DeviceStatus,
        HandStatus,
        InterlockStatus,
        Notice,
        OutputStatus,
        Reading,
        RecipeStatus,
        Status,
        VariableStatus,
    )
    from growd.store.database_node import DatabaseStatus
    from growd.store.replication_status import ReplicationStatus
    from growd.store.retention.budget import RetentionStatus
    from growd.store.store_node import StoreStatus

_HEADINGS: Final = ("device", "state", "for", "successes", "failures", "outages", "last error")
_REPLICATION_HEADINGS: Final = ("replication", "state", "for", "lag", "refused", "restarts", "last error")
_VARIABLE_HEADINGS: Final = ("variable", "measured", "unit", "quality", "age", "set point", "by", "command")
_OUTPUT_HEADINGS: Final = ("output", "is a", "level", "starts", "life left", "on for", "kWh", "litres")
_NUMBERS: Final = (
    "level",
    "starts",
    "life left",
    "kWh",
    "litres",
    "successes",
    "failures",
    "outages",
    "lag",
    "refused",
    "restarts",
    "measured",
    "set point",
)
_LEEWAY_S: Final = 5.0
_GIGABYTE: Final = 1e9
_MEGABYTE: Final = 1e6


def report(status: Status, zone: tzinfo | None = None) -> str:
    """Holds, devices, variables, recipes, tripped interlocks, store, replications, machine; failures last.

    Times are in `zone`, None that of this machine.
    """
    now = status.time
    replications = [_replication_row(each, status.machine_time) for each in status.replications]
    parts = [
        _lines(f"HELD: {hold}" for hold in status.held),
        f"simulated time: {status.speed:g} times as fast as real time" if status.speed != 1 else "",
        _table(_HEADINGS, [_row(device, now) for device in status.devices]),
        _table(_VARIABLE_HEADINGS, [_variable_row(each) for each in status.variables])
        if status.variables
        else "",
        _table(_OUTPUT_HEADINGS, [_output_row(each) for each in status.outputs]) if status.outputs else "",
        _lines(_of_recipe(recipe, now, zone) for recipe in status.recipes),
        _lines(f"{each.environment}: {each.name} is running: {each.text}" for each in status.experiments),
        _lines(_of_set_point(each, now) for each in status.set_points),
        _lines(_of_interlock(each, now) for each in status.interlocks if each.tripped),
        _lines(_of_store(status.store, now)) if status.store is not None else "",
        _of_database(status.database, status.retention) if status.database is not None else "",
        _table(_REPLICATION_HEADINGS, replications) if replications else "",
        _of_cloud(status.cloud, status.machine_time) if status.cloud is not None else "",
        _of_bridge(status.bridge) if status.bridge is not None else "",
        _lines(_of_machine(status.machine)) if status.machine is not None else "",
        _lines(_verdict(status)),
    ]
    return in_symbols("\n\n".join(filter(None, parts)))


_LEADS: Final = {"failure": "FAILED", "warning": "warning", "note": "note"}


def _verdict(status: Status) -> Iterator[str]:
    notices = notices_of(status)
    verdict = verdict_of(status, notices)
    for each in notices:
        if each.text in status.held:
            continue  # the first line says it
        advice = f". {each.remedy}" if each.remedy else ""
        yield f"{_LEADS[each.severity]}: {each.text}{advice}"
        yield from (f"  so: {effect}" for effect in _effects(each))
    yield replace(verdict, remedy="").line  # its notice has it


def _effects(cause: Notice) -> Iterator[str]:
    """The effects of a cause: what is unknown and what is held in one line each."""
    unknown: list[str] = []
    held: list[str] = []
    for each in cause.effects:
        if each.kind == "variable":
            unknown.append(each.text.removesuffix(" is unknown"))
        elif each.kind == "interlock" and each.fields["holds"]:
            held += map(variable_name, each.fields["holds"])
        elif (cause.kind, each.kind) != ("line", "device"):  # which the cause names
            yield each.text
    for words, names in (("unknown", unknown), ("held", held)):
        if names:
            yield f"{words}: {', '.join(dict.fromkeys(names))}"


def _of_recipe(recipe: RecipeStatus, now: float, zone: tzinfo | None) -> str:
    if recipe.state == "idle":
        return f"{recipe.environment}: no recipe runs"
    revision = _revision_of(recipe, now)
    if recipe.state == "waiting":
        left = lasted(max(0.0, recipe.starts_at - now))
        when = f"waits until {moment(recipe.starts_at, zone)} (in {left})"
        return f"{recipe.environment}: recipe {recipe.recipe_id} {when}{revision}"
    phase = f", phase {recipe.phase}" if recipe.phase else ""
    times = f"{lasted(recipe.elapsed_s)} gone, {lasted(recipe.remaining_s)} to go"
    return f"{recipe.environment}: recipe {recipe.recipe_id} is {recipe.state}{phase}, {times}{revision}"


def _revision_of(recipe: RecipeStatus, now: float) -> str:
    revision = f", revision {recipe.revision.partition('-')[0]}" if recipe.revision else ""
    if recipe.revised_at:
        revision += f", which took over {lasted(now - recipe.revised_at)} ago"
    if recipe.changed:
        revision += f" (changed since: revision {recipe.changed.partition('-')[0]} is in the database)"
    return revision


def _of_set_point(each: HandStatus, now: float) -> str:
    on_off = "on" if round(each.value) else "off"
    amount = f"{number(each.value, each.variable)} {each.unit}"
    value = f"{each.variable} {on_off if each.unit == 'switch' else amount}"
    over = f", over {each.over}" if each.over else ""
    over += ", without effect: nothing controls it" if each.is_idle else ""
    return f"{each.environment}: {value} by hand, by {each.by}, for {lasted(now - each.since)}{over}"


def _of_interlock(interlock: InterlockStatus, now: float) -> str:
    hint = f"; reset it with the service {interlock.name}/reset" if interlock.needs_reset else ""
    lead = "pauses its outputs" if interlock.is_expected else "has tripped"
    return f"{interlock.name} {lead}, for {lasted(now - interlock.since)}: {interlock.reason}{hint}"


def _of_store(store: StoreStatus, now: float) -> Iterator[str]:
    verb = "waits" if store.waiting == 1 else "wait"
    yield f"store: {counted(store.waiting, 'point')} {verb} for the next write to the database"
    if store.shipping:
        yield f"  the database has not taken points for {lasted(now - store.since)}: {store.shipping}"
    if store.saving:
        yield f"  points can't be saved, {counted(store.unsaved, 'point')} in memory only: {store.saving}"
    if store.thinned:
        yield f"  {counted(store.thinned, 'point')} thinned out for lack of room; extremes are kept"
    if store.dropped_ever:
        ago = f"the last {lasted(now - store.dropped_at)} ago"
        yield f"  {counted(store.dropped_ever, 'point')} LOST for lack of room, {ago}"
    if store.rejected:
        yield f"  {counted(store.rejected, 'point')} refused by the database: see the service store/rejected"
    yield from (f"  {notice}" for notice in store.notices)


def _of_database(database: DatabaseStatus, retention: RetentionStatus | None) -> str:
    version = f" {database.version}" if database.version else ""
    place = f" at {database.address}" if database.address else ""
    answers = "answers" if database.reachable else f"is not reachable: {database.reason}"
    lines = [f"database: {database.kind}{version}{place} {answers}"]
    if retention is not None and retention.used:
        limit = f" of at most {_size(retention.limit)}" if retention.limit is not None else ""
        lines.append(f"  {_size(retention.needed)} with its compaction{limit}")
    return "\n".join([*lines, *(f"  {build}" for build in database.indexes)])


def _size(number: float) -> str:
    """A number of bytes in words."""
    return f"{number / _GIGABYTE:.1f} GB" if number >= _GIGABYTE else f"{number / _MEGABYTE:.1f} MB"


def _of_machine(machine: MachineStatus) -> Iterator[str]:
    versions = f"growd {machine.growd_version}, Python {machine.python_version}"
    real = " of real time" if machine.clock_simulated else ""
    yield f"growd: up for {lasted(machine.growd_uptime_s)}{real}; {versions}"
    names = ", ".join(filter(None, (machine.model, machine.system)))
    up = f"up for {lasted(machine.uptime_s)}{real}" if machine.uptime_s is not None else ""
    yield f"machine: {'; '.join(filter(None, (names, up, *_figures(machine))))}"
    if machine.troubles or machine.earlier_troubles:
        now, earlier = (", ".join(each or ["none"]) for each in (machine.troubles, machine.earlier_troubles))
        yield f"  trouble that the firmware reports: {now}; earlier: {earlier}"


def _figures(machine: MachineStatus) -> Iterator[str]:
    if machine.load_1min is not None:
        yield f"load {machine.load_1min:.2f} on {counted(machine.cores or 1, 'core')}"
    for sensor, temperature in machine.temperatures_degc.items():
        yield f"{sensor} {temperature:.1f} degC"
    if machine.disk_free_bytes is not None and machine.disk_bytes is not None:
        little = ", which is little" if has_little_disk(machine) else ""
        yield f"{_size(machine.disk_free_bytes)} of {_size(machine.disk_bytes)} of the disk free{little}"
    state = "synchronised" if machine.clock_synchronised else "NOT synchronised"
    yield "simulated clock" if machine.clock_simulated else f"clock {state}"


def _row(device: DeviceStatus, now: float) -> tuple[str, ...]:
    counted = device.counters
    numbers = map(str, (counted.successes, counted.failures, counted.outages))
    reason, _ = reason_and_remedy(counted.last_error)
    error = _error(reason, counted.last_error_time, now)
    return (device.name, device.state, lasted(now - device.since), *numbers, error)


def _variable_row(each: VariableStatus) -> tuple[str, ...]:
    measured, wanted = each.measured, each.desired
    return (
        f"{each.environment}/{each.variable}",
        _value(measured, each.variable),
        symbol(each.unit),
        _quality(measured),
        lasted(measured.age_s) if measured is not None else "-",
        _value(wanted, each.variable),
        wanted.by if wanted is not None and wanted.value is not None else "-",
        _command(each),
    )


def _output_row(each: OutputStatus) -> tuple[str, ...]:
    level = "unknown" if each.level is None else number(each.level)
    energy = "" if each.energy_kwh is None else f"{each.energy_kwh:.3f}"
    volume = "" if each.volume_l is None else f"{each.volume_l:.3f}"
    name = f"{each.environment}/{each.name}"
    return name, each.part, level, str(each.cycles), _life(each), lasted(each.on_s), energy, volume


def _life(each: OutputStatus) -> str:
    """The share of the rated starts that is left, and for how many days; "" if starts do not wear it."""
    if each.life_left is None:
        return ""
    days = "" if each.days_left is None else f", {each.days_left:.0f} days"
    return f"{each.life_left:.0%}{days}"


def _value(reading: Reading | None, variable: str) -> str:
    return "-" if reading is None or reading.value is None else number(reading.value, variable)


def _quality(reading: Reading | None) -> str:
    if reading is None:
        return "-"
    return f"{reading.quality}, by hand" if reading.by == "hand" else reading.quality


def _command(each: VariableStatus) -> str:
    at = f" at {each.written:.0%}" if each.written is not None else ""
    held = f"held{at} by {each.held_by}" if each.held_by else ""
    if each.commanded is None or each.commanded.value is None:
        return held or "-"
    left = f" for {lasted(each.hand_left_s)}" if each.hand_left_s else ""
    by_hand = f", by hand{left}" if each.commanded.by == "hand" else ""
    return f"{each.commanded.value:.0%}{by_hand}{'; ' if held else ''}{held}"


def _replication_row(each: ReplicationStatus, now: float) -> tuple[str, ...]:
    lag = "?" if each.lag is None else str(each.lag)
    numbers = lag, str(each.refused), str(each.restarts)
    error = _error(each.last_error, each.last_error_time, now)
    return (each.name, each.state, lasted(now - each.since), *numbers, error)


def _of_bridge(bridge: BridgeStatus) -> str:
    """How the bridge to home automation is."""
    away = f"is not connected{f': {bridge.reason}' if bridge.reason else ''}"
    words = [f"MQTT broker {bridge.host}:{bridge.port}: growd {'publishes' if bridge.is_connected else away}"]
    if bridge.is_connected:
        words.append(f"on {bridge.topic}/#")
    if bridge.is_connected and bridge.takes_commands:
        words.append(f"and takes commands ({bridge.accepted} carried out, {bridge.refused} refused)")
    return " ".join(words)


def _of_cloud(cloud: CloudStatus, now: float) -> str:
    last = f"last report {lasted(now - cloud.reported_at)} ago" if cloud.reported_at else "no report yet"
    return f"cloud: {last}{f'; {cloud.fault}' if cloud.fault else ''}"


def _error(sentence: str, at: float, now: float) -> str:
    return f"{sentence} ({lasted(now - at)} ago)" if sentence else "-"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(columns(headings, rows, right=_NUMBERS))


def lasted(seconds: float) -> str:
    """A duration as text; "?" if the clock of a simulation is ahead of that of the machine."""
    return duration(seconds) if seconds >= -_LEEWAY_S else "?"
