"""The figures that Prometheus reads, made of one `Status` when it asks.

Names and units are those of https://prometheus.io/docs/practices/naming/: base units where there are some
(celsius, volts, a ratio for what is in percent), else those of the variable. Labels come from the
configuration and from what runs at present, so their number is bounded. This module imports
prometheus_client, which takes a while: import it in a thread, when somebody asks first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from growd.bus.messages import Quality
from growd.control.health import State
from growd.host.machine import TROUBLES
from growd.store.replication_status import ReplicationState
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.host.machine import MachineStatus
    from growd.status.model import HttpStatus, Reading, Status, VariableStatus

OPENMETRICS: Final = "application/openmetrics-text"
UNITS: Final = {
    "ppm": ("ppm", 1.0),
    "degC": ("celsius", 1.0),
    "percent": ("ratio", 0.01),
    "fraction": ("ratio", 1.0),
    "switch": ("", 1.0),
    "lux": ("lux", 1.0),
    "umol/m2/s": ("umol_per_square_meter_per_second", 1.0),
    "pH": ("ph", 1.0),
    "mS/cm": ("siemens_per_meter", 0.1),
    "mV": ("volts", 0.001),
    "mg/L": ("grams_per_liter", 0.001),
    "ml/h": ("liters_per_hour", 0.001),
    "CFM": ("cubic_feet_per_minute", 1.0),
    "number": ("", 1.0),
}
"""Each unit of a variable: its name at the end of a metric's, and what a value is multiplied by."""

RECIPE_STATES: Final = ("idle", "running", "paused")


def render(status: Status, accept: str) -> tuple[bytes, str]:
    """The metrics as text, and its content type: OpenMetrics if `accept` (the header) names it.

    Blocking: reads the figures of this process from the kernel.
    """
    families = _Families(status)
    if any(part.partition(";")[0].strip() == OPENMETRICS for part in accept.split(",")):
        text: bytes = generate_openmetrics(families)  # type: ignore[no-untyped-call]
        return text, CONTENT_TYPE_LATEST
    return generate_latest(families), CONTENT_TYPE_PLAIN_0_0_4


class _Families:
    """What `generate_latest` collects from, instead of a registry."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        yield from _of_variables(status.variables)
        yield from _of_recipes(status)
        yield from _of_devices(status)
        yield from _of_interlocks(status)
        yield from _of_store(status)
        yield from _of_database(status)
        yield from _of_replications(status)
        yield from _of_problems(status)
        if status.http is not None:
            yield from _of_http(status.http)
        if status.machine is not None:
            yield from _of_machine(status.machine)
        yield from ProcessCollector(registry=None).collect()


def _gauge(name: str, doc: str, *labels: str, unit: str = "") -> GaugeMetricFamily:
    return GaugeMetricFamily(f"growd_{name}", doc, labels=labels, unit=unit)


def _counter(name: str, doc: str, *labels: str, unit: str = "") -> CounterMetricFamily:
    return CounterMetricFamily(f"growd_{name}", doc, labels=labels, unit=unit)


def _one_of(family: GaugeMetricFamily, labels: Iterable[str], among: Iterable[str], present: str) -> None:
    """A sample for each state that something may be in: 1 for the one that it is in, 0 for all others."""
    for state in among:
        family.add_metric([*labels, str(state)], float(state == present))


# what is measured, wanted and done


def _of_variables(found: list[VariableStatus]) -> Iterator[Metric]:
    for name in dict.fromkeys(each.variable for each in found):
        of_it = [each for each in found if each.variable == name]
        yield from _values("measured", "as it is", name, of_it, [each.measured for each in of_it])
        yield from _values("desired", "as it is wanted", name, of_it, [each.desired for each in of_it])
    place = ("environment", "variable")
    ages = _gauge("measured_age", "Time since the last message on a variable.", *place, unit="seconds")
    qualities = _gauge("measured_quality", "1 for the quality that the last message has.", *place, "quality")
    commands = _gauge("commanded", "What an actuator is told, of its full power.", *place, unit="ratio")
    by_hand = _gauge("commanded_by_hand", "Whether that is a command by hand.", *place)
    for each in found:
        labels = [each.environment, each.variable]
        if each.measured is not None:
            ages.add_metric(labels, each.measured.age_s)
            _one_of(qualities, labels, Quality, each.measured.quality)
        if each.commanded is not None:
            by_hand.add_metric(labels, float(each.commanded.by == "hand"))
            if each.commanded.value is not None:
                commands.add_metric(labels, each.commanded.value)
    yield from (ages, qualities, commands, by_hand)


def _values(
    kind: str, words: str, name: str, where: list[VariableStatus], readings: list[Reading | None]
) -> Iterator[Metric]:
    """One family for a variable in all environments; none where nobody has a value of it."""
    unit, factor = UNITS[VARIABLES[name].unit]
    family = _gauge(f"{kind}_{name}", f"The variable {name} {words}.", "environment", unit=unit)
    for each, reading in zip(where, readings, strict=True):
        if reading is not None and reading.value is not None:
            family.add_metric([each.environment], reading.value * factor)
    if family.samples:
        yield family


def _of_recipes(status: Status) -> Iterator[Metric]:
    states = _gauge("recipe_state", "1 for the state that the recipe is in.", "environment", "state")
    names = InfoMetricFamily(
        "growd_recipe",
        "The recipe that runs, and its phase.",
        labels=["environment"],
    )
    elapsed = _gauge("recipe_elapsed", "How far the recipe has come.", "environment", unit="seconds")
    left = _gauge("recipe_remaining", "What is left of the recipe.", "environment", unit="seconds")
    for recipe in status.recipes:
        where = [recipe.environment]
        _one_of(states, where, RECIPE_STATES, recipe.state)
        if recipe.state != "idle":
            names.add_metric(where, {"recipe_id": recipe.recipe_id, "phase": recipe.phase})
            elapsed.add_metric(where, recipe.elapsed_s)
            left.add_metric(where, recipe.remaining_s)
    yield from (states, names, elapsed, left)


def _of_devices(status: Status) -> Iterator[Metric]:
    place = ("environment", "device")
    states = _gauge("device_state", "1 for the state that the device is in.", *place, "state")
    successes = _counter("device_successes", "What the device did as it was asked.", *place)
    failures = _counter("device_failures", "What the device failed to do.", *place)
    outages = _counter("device_outages", "How often the device failed for longer.", *place)
    lasted = _counter("device_outage", "How long the device had failed.", *place, unit="seconds")
    for device in status.devices:
        environment, _, name = device.name.partition("/")
        labels, counters = [environment, name], device.counters
        _one_of(states, labels, State, device.state)
        successes.add_metric(labels, counters.successes)
        failures.add_metric(labels, counters.failures)
        outages.add_metric(labels, counters.outages)
        lasted.add_metric(labels, counters.outage_seconds)
    yield from (states, successes, failures, outages, lasted)


def _of_interlocks(status: Status) -> Iterator[Metric]:
    place = ("environment", "interlock")
    tripped = _gauge("interlock_tripped", "Whether the interlock has tripped.", *place)
    held = _gauge("interlock_needs_reset", "Whether it holds until somebody resets it.", *place)
    for interlock in status.interlocks:
        environment, _, rest = interlock.name.partition("/")
        labels = [environment, rest.removeprefix("interlocks/")]
        tripped.add_metric(labels, float(interlock.tripped))
        held.add_metric(labels, float(interlock.needs_reset))
    yield from (tripped, held)


# what becomes of it


def _of_store(status: Status) -> Iterator[Metric]:
    store = status.store
    if store is None:
        return
    gauges = (
        ("outbox_points", "Points that are not in the database yet.", store.waiting),
        ("outbox_unsaved_points", "Those of them that are in memory only.", store.unsaved),
        ("rejected_points", "Points that the database refused.", store.rejected),
        ("shipping_failing", "Whether the database takes no points.", bool(store.shipping)),
        ("saving_failing", "Whether the disk takes no points.", bool(store.saving)),
    )
    for name, doc, value in gauges:
        family = _gauge(name, doc)
        family.add_metric([], float(value))
        yield family
    counters = (
        ("shipped_points", "Points that the database has taken.", store.shipped),
        ("thinned_points", "Points that were thinned out for want of room.", store.thinned),
        ("dropped_points", "Points that were lost for want of room.", store.dropped),
    )
    for name, doc, number in counters:
        counter = _counter(name, doc)
        counter.add_metric([], number)
        yield counter


def _of_database(status: Status) -> Iterator[Metric]:
    database = status.database
    if database is None:
        return
    up = _gauge("database_up", "Whether the database answers.")
    up.add_metric([], float(database.reachable))
    told = {"kind": database.kind, "version": database.version or ""}
    yield from (up, InfoMetricFamily("growd_database", "The database server.", told))


def _of_replications(status: Status) -> Iterator[Metric]:
    place = "replication"
    states = _gauge("replication_state", "1 for the state that the replication is in.", place, "state")
    lag = _gauge("replication_lag_changes", "Changes that the target lacks.", place)
    failures = _counter("replication_failures", "How often the replication failed.", place)
    refused = _counter("replication_refused_documents", "Documents that the target refused.", place)
    restarts = _counter("replication_restarts", "Restarts by growd.", place)
    for each in status.replications:
        labels = [each.name]
        _one_of(states, labels, ReplicationState, each.state)
        if each.lag is not None:
            lag.add_metric(labels, each.lag)
        failures.add_metric(labels, each.failures)
        refused.add_metric(labels, each.refused)
        restarts.add_metric(labels, each.restarts)
    yield from (states, lag, failures, refused, restarts)


def _of_problems(status: Status) -> Iterator[Metric]:
    failures = _counter("component_failures", "How often a part of growd failed and went on.", "component")
    for each in status.components:
        failures.add_metric([each.name], each.failures)
    problems = _gauge("problems", "What `growd status` shows as wrong.", "severity")
    problems.add_metric(["failure"], len(status.failures))
    problems.add_metric(["warning"], len(status.warnings))
    simulated = _gauge("hardware_simulated", "Whether the hardware is simulated.")
    simulated.add_metric([], float(status.hardware == "simulated"))
    yield from (failures, problems, simulated)


def _of_http(http: HttpStatus) -> Iterator[Metric]:
    requests = _counter("http_requests", "Requests that were answered, by class of status.", "status")
    for digit in range(1, 6):
        requests.add_metric([f"{digit}xx"], http.answered.get(f"{digit}xx", 0))
    connections = _gauge("http_connections", "Connections of clients that are open.")
    connections.add_metric([], http.connections)
    streams = _gauge("http_streams", "Streams of topics that are open.")
    streams.add_metric([], http.streams)
    yield from (requests, connections, streams)


# the machine


def _of_machine(machine: MachineStatus) -> Iterator[Metric]:
    build = {"version": machine.growd_version, "python_version": machine.python_version}
    yield InfoMetricFamily("growd_build", "What runs.", build)
    names = {"model": machine.model, "system": machine.system, "kernel": machine.kernel}
    known = {name: value or "" for name, value in names.items()}
    yield InfoMetricFamily("growd_machine", "What it runs on.", known)
    gauges = (
        ("disk_free", "Room on the disk of the data folder.", "bytes", machine.disk_free_bytes),
        ("disk_size", "Size of the disk of the data folder.", "bytes", machine.disk_bytes),
        ("machine_uptime", "Time since the machine started.", "seconds", machine.uptime_s),
        ("machine_load1", "Processes that run or wait, a mean of a minute.", "", machine.load_1min),
        ("clock_synchronised", "Whether the clock was set.", "", machine.clock_synchronised),
    )
    for name, doc, unit, value in gauges:
        if value is not None:
            family = _gauge(name, doc, unit=unit)
            family.add_metric([], float(value))
            yield family
    warm = _gauge("machine_temperature", "Temperature in the machine.", "sensor", unit="celsius")
    for sensor, temperature in machine.temperatures_degc.items():
        warm.add_metric([sensor], temperature)
    yield warm
    yield from _of_troubles(machine)


def _of_troubles(machine: MachineStatus) -> Iterator[Metric]:
    """Nothing where the machine does not tell."""
    for name, doc, found in (
        ("machine_trouble", "What the firmware of a Raspberry Pi tells now.", machine.troubles),
        ("machine_trouble_before", "What it told at some time before.", machine.earlier_troubles),
    ):
        if found is not None:
            family = _gauge(name, doc, "trouble")
            for trouble in TROUBLES.values():
                family.add_metric([trouble], float(trouble in found))
            yield family
