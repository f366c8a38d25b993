"""The summary of a simulated run as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.runtime.text import duration, moment, symbol
from growd_cli.output import number, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from growd_simulation.recipes.summary import Happened, Injected, SetPointKept, Summary


def table_of(summary: Summary, zone: tzinfo | None) -> Iterator[str]:
    """Set points, light and use, pumps, outputs, interlocks and faults; a table without rows is left out."""
    begin, end = moment(summary.start, zone), moment(summary.end, zone)
    how = "stopped before its end" if summary.end_reason == "stopped" else summary.end_reason
    yield f"{summary.recipe} in {summary.environment}, from {begin} to {end}: {how}"
    heads = ("set point", "unit", "in band", "unknown", "mean error", "lowest", "highest", "longest outside")
    yield from _table((*heads, "from"), [_set_point(one, zone) for one in summary.set_points])
    yield from _table(("sum", "unit", "value"), [*_sums(summary)])
    doses = [(one.output, str(one.number), _shown(one.ml)) for one in summary.doses]
    yield from _table(("pump", "doses", "ml"), doses)
    outputs = [
        (one.output, one.part, str(one.starts), duration(one.on_s), _share(one.life_used))
        for one in summary.outputs
    ]
    yield from _table(("output", "is a", "starts", "on for", "life used"), outputs)
    yield from _table(("interlock", "tripped", "for"), [*map(_happened, summary.interlocks)])
    yield from _table(("failed device", "times", "for"), [*map(_happened, summary.faults)])
    ran_s = summary.end - summary.start
    columns = ("fault of the simulation", "device", "begins after", "for")
    yield from _table(columns, [_injected(one, ran_s) for one in summary.injected])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield ""
        yield from table(heads, rows)


def _set_point(one: SetPointKept, zone: tzinfo | None) -> tuple[str, ...]:
    values = (
        "" if each is None else number(each, one.variable)
        for each in (one.mean_error, one.lowest, one.highest)
    )
    since = "" if one.longest_at is None else moment(one.longest_at, zone)
    lasted = duration(one.longest_outside_s) if one.longest_outside_s else ""
    unknown = duration(one.unknown_s) if one.unknown_s else ""
    return one.variable, symbol(one.unit), _share(one.within), unknown, *values, lasted, since


def _sums(summary: Summary) -> Iterator[tuple[str, str, str]]:
    light = summary.light
    if light is not None:
        daily = (("mean", light.mean), ("lowest", light.lowest), ("highest", light.highest))
        for name, integral in daily:
            yield f"light of a day, {name}", symbol("mol/m2"), f"{integral:.2f}"
    uses = (
        ("energy", "kWh", summary.energy_kwh),
        ("water", "l", summary.water_l),
        ("CO2", "g", summary.carbon_dioxide_g),
    )
    for name, unit, value in uses:
        if value is not None:
            yield name, unit, _shown(value)


def _happened(one: Happened) -> tuple[str, str, str]:
    return one.name, str(one.times), duration(one.lasted_s)


def _injected(one: Injected, ran_s: float) -> tuple[str, ...]:
    begins = duration(one.begins_s) if one.begins_s < ran_s else f"{duration(one.begins_s)}: after the end"
    return one.kind, one.device, begins, "" if one.lasts_s is None else duration(one.lasts_s)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


def _shown(value: float | None) -> str:
    return "" if value is None else number(float(f"{value:.4g}"))
