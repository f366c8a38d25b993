"""The summary of a simulation: a selection of the figures of its run, and of the counters of its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.output_roles import OutputClass
from growd.variables import VALVE
from growd_analysis.figures.series_account import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd_analysis.figures.figures import EventFigures, OutputFigures, RunFigures
    from growd_simulation.recipes.simulated_run import SimulatedRun

_DAY_S: Final = 86_400.0
_SLACK_S: Final = 3_601.0  # a day of summer time is an hour shorter


class SetPointKept(msgspec.Struct, frozen=True):
    """How well a set point was kept: `within` is the share of the time in band.

    The value was unknown, which is not in band, for `unknown_s`. It was outside for longest from
    `longest_at` (UNIX seconds) on, None if it never was.
    """

    variable: str
    unit: str
    within: float | None
    mean_error: float | None
    lowest: float | None
    highest: float | None
    longest_outside_s: float
    longest_at: float | None
    unknown_s: float


class DailyLight(msgspec.Struct, frozen=True):
    """The light of whole days in mol/m2, or of all days if none is whole."""

    mean: float
    lowest: float
    highest: float
    days: int


class PumpDoses(msgspec.Struct, frozen=True):
    """What a dosing pump gave. `ml` is None without its flow."""

    output: str
    variable: str
    number: int
    ml: float | None


class Starts(msgspec.Struct, frozen=True):
    """The starts of an output, and the share of its rated starts that they use; None if it has none."""

    output: str
    part: str
    starts: int
    on_s: float
    life_used: float | None


class Happened(msgspec.Struct, frozen=True):
    """How often, and for how long together, an interlock was tripped or a fault lasted."""

    name: str
    times: int
    lasted_s: float


class Injected(msgspec.Struct, frozen=True):
    """A fault of the simulation, `begins_s` after its start; `lasts_s` is None without an end."""

    kind: str
    device: str
    begins_s: float
    lasts_s: float | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe did. Times are UNIX seconds; energy, water and CO2 are None if nothing measures them."""

    recipe: str
    environment: str
    start: float
    end: float
    end_reason: str
    set_points: list[SetPointKept]
    light: DailyLight | None
    energy_kwh: float | None
    water_l: float | None
    carbon_dioxide_g: float | None
    doses: list[PumpDoses]
    outputs: list[Starts]
    interlocks: list[Happened]
    faults: list[Happened]
    injected: list[Injected]


def summary_of(ran: SimulatedRun) -> Summary:
    """The summary, after `SimulatedRun.account`."""
    record, figures = ran.record, ran.figures
    return Summary(
        recipe=record["recipe_id"],
        environment=record["environment"],
        start=figures.start,
        end=figures.end,
        end_reason=record["end_reason"],
        set_points=[*_set_points(figures)],
        light=_light(figures),
        energy_kwh=_sum(one.energy_kwh for one in figures.outputs),
        water_l=_sum(one.litres for one in figures.outputs if _is_water(one)),
        carbon_dioxide_g=_sum(one.grams for one in figures.outputs if one.variable == VALVE),
        doses=[*_doses(ran.outputs)],
        outputs=[*_starts(ran.outputs)],
        interlocks=[_happened(one, figures.end) for one in figures.events if one.kind == "interlock"],
        faults=[_happened(one, figures.end) for one in figures.events if one.kind == "fault"],
        injected=[Injected(each.kind, each.device, each.at, each.duration) for each in ran.injected],
    )


def _set_points(figures: RunFigures) -> Iterator[SetPointKept]:
    for one in figures.variables:
        if (apart := one.deviation) is not None:
            yield SetPointKept(
                one.variable,
                one.unit,
                apart.within,
                apart.mean_absolute,
                one.whole.min,
                one.whole.max,
                apart.longest_s,
                apart.longest_at,
                apart.unknown_s,
            )


def _light(figures: RunFigures) -> DailyLight | None:
    if figures.light is None:
        return None
    ends = [*figures.days[1:], figures.end]
    known = [
        (end - begin >= _DAY_S - _SLACK_S, light)
        for begin, end, light in zip(figures.days, ends, figures.light.days, strict=True)
        if light is not None
    ]
    found = [light for is_whole, light in known if is_whole] or [light for _, light in known]
    return DailyLight(short(sum(found) / len(found)), min(found), max(found), len(found)) if found else None


def _is_water(one: OutputFigures) -> bool:
    """Whether an output gives water; a drain takes it."""
    return one.variable in {"water_fill", "water_irrigation"}


def _doses(outputs: Iterable[dict[str, Any]]) -> Iterator[PumpDoses]:
    for each in outputs:
        if each["output_class"] == OutputClass.DOSING:
            litres = each["volume_l"]
            ml = None if litres is None else short(1000 * litres)
            yield PumpDoses(each["name"], each["variable"], each["cycles"], ml)


def _starts(outputs: Iterable[dict[str, Any]]) -> Iterator[Starts]:
    for each in outputs:
        rated = each["rated_starts"]
        used = short(each["cycles"] / rated) if rated else None
        yield Starts(each["name"], each["part"], each["cycles"], each["on_s"], used)


def _happened(one: EventFigures, end: float) -> Happened:
    """What has no end lasts until the end of the run."""
    lasted_s = one.lasted_s + sum(end - begin for begin, until in one.times if until is None)
    return Happened(one.source, one.count, round(lasted_s, 3))


def _sum(values: Iterable[float | None]) -> float | None:
    """None if none is known."""
    known = [value for value in values if value is not None]
    return short(sum(known)) if known else None
