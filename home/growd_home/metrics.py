"""The metrics for Prometheus, made from a `Status`.

Names and units follow https://prometheus.io/docs/practices/naming/: base units if there are any (celsius,
volts, a ratio for percent), else those of the variable. Labels come from the configuration and from what
runs, so that their number is bounded.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

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
from growd.host.hold import Holder
from growd.host.machine import TROUBLES
from growd.status.notices import notices_of
from growd.status.summary import STATES, health, verdict_of
from growd.store.replication_status import ReplicationState
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from growd.host.machine import MachineStatus
    from growd.status.model import (
        AttainmentStatus,
        HttpStatus,
        OutputStatus,
        Reading,
        Status,
        VariableStatus,
    )
    from growd.store.database_node import DatabaseStatus
    from growd.store.store_node import StoreStatus

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
    "kPa": ("pascals", 1000.0),
    "hPa": ("pascals", 100.0),
    "g/m3": ("grams_per_cubic_meter", 1.0),
    "mol/m2": ("moles_per_square_meter", 1.0),
    "degC d": ("celsius_days", 1.0),
    "h": ("seconds", 3600.0),
    "index": ("", 1.0),
    "cm": ("meters", 0.01),
    "L": ("liters", 1.0),
    "g": ("grams", 1.0),
    "leaves": ("", 1.0),
    "plants": ("", 1.0),
    "CFM": ("cubic_feet_per_minute", 1.0),
    "number": ("", 1.0),
}
"""Unit of a variable -> suffix of the metric, and the factor for its values."""

RECIPE_STATES: Final = ("idle", "waiting", "running", "paused")
ATTAINMENT_STATES: Final = ("idle", "settling", "reached", "missed")


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
        yield from _variables(status.variables)
        yield from _attainment(status.attainment)
        yield from _recipes(status)
        yield from _devices(status)
        yield from _outputs(status.outputs)
        yield from _interlocks(status)
        held = [([holder], any(hold.holder is holder for hold in status.holds)) for holder in Holder]
        yield _gauge("held", "Whether a hold keeps all outputs safe.", held, ["holder"])
        if status.store is not None:
            yield from _store(status.store)
        if status.database is not None:
            yield from _database(status.database)
        yield from _replications(status)
        yield from _problems(status)
        yield from _alerts(status)
        if status.http is not None:
            yield from _http(status.http)
        if status.machine is not None:
            yield from _machine(status.machine)
        yield from ProcessCollector(registry=None).collect()


Samples: TypeAlias = "Iterable[tuple[Sequence[str], float]]"
"""The values of a metric with those of its labels."""


def _gauge(
    name: str, doc: str, samples: Samples, labels: Sequence[str] = (), unit: str = ""
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"growd_{name}", doc, labels=labels, unit=unit)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family


def _counter(
    name: str, doc: str, samples: Samples, labels: Sequence[str] = (), unit: str = ""
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"growd_{name}", doc, labels=labels, unit=unit)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _single(value: float) -> Samples:
    """The value of a metric without labels."""
    return [((), value)]


def _one_of(labels: Iterable[str], states: Iterable[str], current: str) -> Samples:
    """A sample for each possible state: 1 for the current one, 0 for all others."""
    return [([*labels, str(state)], float(state == current)) for state in states]


# variables, recipes, devices, interlocks


def _variables(found: list[VariableStatus]) -> Iterator[Metric]:
    for name in dict.fromkeys(each.variable for each in found):
        these = [each for each in found if each.variable == name]
        yield from _values("measured", "measured value", name, [(e.environment, e.measured) for e in these])
        yield from _values("desired", "set point", name, [(e.environment, e.desired) for e in these])
    place = ("environment", "variable")
    measured = [((e.environment, e.variable), e.measured) for e in found if e.measured is not None]
    commanded = [((e.environment, e.variable), e.commanded) for e in found if e.commanded is not None]
    ages = [(labels, reading.age_s) for labels, reading in measured]
    yield _gauge("measured_age", "Time since the last message on a variable.", ages, place, "seconds")
    qualities = [
        sample for labels, reading in measured for sample in _one_of(labels, Quality, reading.quality)
    ]
    yield _gauge("measured_quality", "1 for the quality of the last message.", qualities, (*place, "quality"))
    commands = [(labels, each.value) for labels, each in commanded if each.value is not None]
    yield _gauge("commanded", "The command of an actuator, of its full power.", commands, place, "ratio")
    by_hand = [(labels, each.by == "hand") for labels, each in commanded]
    yield _gauge("commanded_by_hand", "Whether the command is by hand.", by_hand, place)


def _values(
    kind: str, words: str, name: str, readings: Iterable[tuple[str, Reading | None]]
) -> Iterator[Metric]:
    """A metric for a variable in all environments; none without a value."""
    unit, factor = UNITS[VARIABLES[name].unit]
    samples = [
        ([environment], reading.value * factor)
        for environment, reading in readings
        if reading is not None and reading.value is not None
    ]
    if samples:
        yield _gauge(f"{kind}_{name}", f"The {words} of {name}.", samples, ["environment"], unit)


def _attainment(found: list[AttainmentStatus]) -> Iterator[Metric]:
    for name in dict.fromkeys(each.variable for each in found):
        bands = [(each.environment, each.band) for each in found if each.variable == name and each.band]
        limits = (
            ("min", "least", [(environment, least) for environment, (least, _) in bands]),
            (
                "max",
                "greatest",
                [(environment, most) for environment, (_, most) in bands if most is not None],
            ),
        )
        unit, factor = UNITS[VARIABLES[name].unit]
        for limit, word, values in limits:
            samples = [([environment], value * factor) for environment, value in values]
            if samples:
                doc = f"The {word} value of {name} that counts as at the set point."
                yield _gauge(f"band_{limit}_{name}", doc, samples, ["environment"], unit)
    place = ("environment", "variable")
    states = [
        sample
        for each in found
        for sample in _one_of([each.environment, each.variable], ATTAINMENT_STATES, each.state)
    ]
    doc = "1 for the state of a controlled variable: whether it reaches its set point."
    yield _gauge("attainment_state", doc, states, (*place, "state"))


def _recipes(status: Status) -> Iterator[Metric]:
    place = ["environment"]
    states = [sample for r in status.recipes for sample in _one_of([r.environment], RECIPE_STATES, r.state)]
    yield _gauge("recipe_state", "1 for the state of the recipe.", states, [*place, "state"])
    active = [recipe for recipe in status.recipes if recipe.state in {"running", "paused"}]
    info = InfoMetricFamily("growd_recipe", "The running recipe and its phase.", labels=place)
    for recipe in active:
        info.add_metric([recipe.environment], {"recipe_id": recipe.recipe_id, "phase": recipe.phase})
    yield info
    elapsed = [([recipe.environment], recipe.elapsed_s) for recipe in active]
    yield _gauge("recipe_elapsed", "Elapsed time of the recipe.", elapsed, place, "seconds")
    remaining = [([recipe.environment], recipe.remaining_s) for recipe in active]
    yield _gauge("recipe_remaining", "Remaining time of the recipe.", remaining, place, "seconds")


def _devices(status: Status) -> Iterator[Metric]:
    place = ("environment", "device")
    found = [(device.name.partition("/")[::2], device) for device in status.devices]
    states = [sample for labels, device in found for sample in _one_of(labels, State, device.state)]
    yield _gauge("device_state", "1 for the state of the device.", states, (*place, "state"))
    counters = [(labels, device.counters) for labels, device in found]
    for name, doc, samples in (
        ("successes", "Successful operations of the device.", [(la, c.successes) for la, c in counters]),
        ("failures", "Failed operations of the device.", [(la, c.failures) for la, c in counters]),
        ("outages", "Outages of the device.", [(la, c.outages) for la, c in counters]),
    ):
        yield _counter(f"device_{name}", doc, samples, place)
    lasted = [(labels, each.outage_seconds) for labels, each in counters]
    yield _counter("device_outage", "Total duration of the outages.", lasted, place, "seconds")


def _outputs(found: list[OutputStatus]) -> Iterator[Metric]:
    place = ("environment", "output", "variable")
    labelled = [((each.environment, each.name, each.variable), each) for each in found]
    levels = [(labels, each.level) for labels, each in labelled if each.level is not None]
    yield _gauge("output_level", "The level written to the output.", levels, place, "ratio")
    cycles = [(labels, float(each.cycles)) for labels, each in labelled]
    yield _counter("output_cycles", "How often the output was switched on.", cycles, place)
    left = [(labels, each.life_left) for labels, each in labelled if each.life_left is not None]
    yield _gauge("output_life_left", "The share of the rated starts that is left.", left, place, "ratio")
    lasted = [(labels, each.on_s) for labels, each in labelled]
    yield _counter("output_on", "How long the output was on.", lasted, place, "seconds")
    energy = [(la, each.energy_kwh * 3.6e6) for la, each in labelled if each.energy_kwh is not None]
    yield _counter("output_energy", "Electric energy of the output.", energy, place, "joules")
    volume = [(labels, each.volume_l) for labels, each in labelled if each.volume_l is not None]
    yield _counter("output_volume", "Volume that the output let through.", volume, place, "liters")


def _interlocks(status: Status) -> Iterator[Metric]:
    place = ("environment", "interlock")
    found = [
        (each.name.replace("/interlocks/", "/", 1).partition("/")[::2], each) for each in status.interlocks
    ]
    tripped = [(labels, each.tripped) for labels, each in found]
    yield _gauge("interlock_tripped", "Whether the interlock has tripped.", tripped, place)
    held = [(labels, each.needs_reset) for labels, each in found]
    yield _gauge("interlock_needs_reset", "Whether the interlock holds until it is reset.", held, place)
    expected = [(labels, each.is_expected) for labels, each in found]
    yield _gauge("interlock_expected", "Whether its trips are part of normal operation.", expected, place)


# store, database, replications


def _store(store: StoreStatus) -> Iterator[Metric]:
    for name, doc, value in (
        ("outbox_points", "Points that are not in the database yet.", store.waiting),
        ("outbox_unsaved_points", "Those of them that are in memory only.", store.unsaved),
        ("rejected_points", "Points that the database refused.", store.rejected),
        ("shipping_failing", "Whether the database does not take points.", bool(store.shipping)),
        ("saving_failing", "Whether points can't be saved to disk.", bool(store.saving)),
    ):
        yield _gauge(name, doc, _single(value))
    for name, doc, value in (
        ("shipped_points", "Points that the database has taken.", store.shipped),
        ("thinned_points", "Points that were thinned out for lack of room.", store.thinned),
        ("dropped_points", "Points that were lost for lack of room.", store.dropped),
    ):
        yield _counter(name, doc, _single(value))


def _database(database: DatabaseStatus) -> Iterator[Metric]:
    yield _gauge("database_up", "Whether the database answers.", _single(database.reachable))
    server = {"kind": database.kind, "version": database.version or ""}
    yield InfoMetricFamily("growd_database", "The database server.", server)


def _replications(status: Status) -> Iterator[Metric]:
    place, found = ["replication"], [([each.name], each) for each in status.replications]
    states = [sample for name, each in found for sample in _one_of(name, ReplicationState, each.state)]
    yield _gauge("replication_state", "1 for the state of the replication.", states, [*place, "state"])
    lag = [(name, each.lag) for name, each in found if each.lag is not None]
    yield _gauge("replication_lag_changes", "Changes that are not on the target yet.", lag, place)
    for name, doc, samples in (
        ("failures", "Failures of the replication.", [(n, each.failures) for n, each in found]),
        ("refused_documents", "Documents that the target refused.", [(n, each.refused) for n, each in found]),
        ("restarts", "Restarts of the replication by growd.", [(n, each.restarts) for n, each in found]),
    ):
        yield _counter(f"replication_{name}", doc, samples, place)


# growd and the machine


def _problems(status: Status) -> Iterator[Metric]:
    failures = [([each.name], each.failures) for each in status.components]
    yield _counter("component_failures", "Failures of a component of growd.", failures, ["component"])
    notices = notices_of(status)
    severities = [each.severity for each in notices]
    problems = [([name], severities.count(name)) for name in ("failure", "warning")]
    state = verdict_of(status, notices).state
    yield _gauge("problems", "Causes of problems that `growd status` shows.", problems, ["severity"])
    states = [([each], float(each == state)) for each in STATES]
    yield _gauge("verdict", "The verdict of `growd status`, 1 for the present one.", states, ["state"])
    yield _gauge("healthy", "Whether the page `health` answers with ok.", _single(not health(status)))
    simulated = _single(status.hardware == "simulated")
    yield _gauge("hardware_simulated", "Whether the hardware is simulated.", simulated)


def _alerts(status: Status) -> Iterator[Metric]:
    """Open alerts and failing channels. Their labels come from the configuration."""
    kinds = ((each.rule, each.severity, each.acknowledged_by is not None) for each in status.alerts)
    counted = [
        ((rule, severity, str(seen).lower()), n) for (rule, severity, seen), n in Counter(kinds).items()
    ]
    labels = ("rule", "severity", "acknowledged")
    yield _gauge("open_alerts", "Alerts of growd that have not ended.", counted, labels)
    failing = [([each.name], bool(each.error)) for each in status.channels]
    yield _gauge("alert_channel_failing", "Whether the channel can't send alerts.", failing, ["channel"])


def _http(http: HttpStatus) -> Iterator[Metric]:
    answered = [([kind], http.answered.get(kind, 0)) for kind in ("1xx", "2xx", "3xx", "4xx", "5xx")]
    yield _counter("http_requests", "Answered requests by class of status.", answered, ["status"])
    yield _gauge("http_connections", "Open connections of clients.", _single(http.connections))
    yield _gauge("http_streams", "Open streams of topics.", _single(http.streams))


def _machine(machine: MachineStatus) -> Iterator[Metric]:
    build = {"version": machine.growd_version, "python_version": machine.python_version}
    yield InfoMetricFamily("growd_build", "The versions of growd and Python.", build)
    names = {"model": machine.model, "system": machine.system, "kernel": machine.kernel}
    known = {name: value or "" for name, value in names.items()}
    yield InfoMetricFamily("growd_machine", "The machine that growd runs on.", known)
    for name, doc, unit, value in (
        ("disk_free", "Free space on the disk of the data folder.", "bytes", machine.disk_free_bytes),
        ("disk_size", "Size of the disk of the data folder.", "bytes", machine.disk_bytes),
        ("machine_uptime", "Time since the machine started.", "seconds", machine.uptime_s),
        ("machine_load1", "Load average of one minute.", "", machine.load_1min),
        ("clock_synchronised", "Whether the clock is synchronised.", "", machine.clock_synchronised),
    ):
        if value is not None:
            yield _gauge(name, doc, _single(value), unit=unit)
    temperatures = [([sensor], value) for sensor, value in machine.temperatures_degc.items()]
    yield _gauge("machine_temperature", "Temperature in the machine.", temperatures, ["sensor"], "celsius")
    for name, doc, troubles in (
        ("machine_trouble", "Current trouble that the firmware of a Raspberry Pi reports.", machine.troubles),
        ("machine_trouble_before", "Earlier trouble that it reports.", machine.earlier_troubles),
    ):
        if troubles is not None:
            samples = [([trouble], trouble in troubles) for trouble in TROUBLES.values()]
            yield _gauge(name, doc, samples, ["trouble"])
