"""Sections of control loops: [control.<variable>], one for each variable that outputs drive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from growd.config.base import Section
from growd.config.findings import Finding, did_you_mean
from growd.variables import ILLUMINANCE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.chamber import Chamber

Gain = Annotated[float, Meta(ge=0, le=1_000)]
IntegralTime = Annotated[float, Meta(ge=1, le=864_000)]
DerivativeTime = Annotated[float, Meta(ge=0, le=3_600)]
Band = Annotated[float, Meta(ge=0, le=10_000)]
Volume = Annotated[float, Meta(ge=0, le=100_000)]


class LoopOptions(Section, frozen=True):
    """Control of one variable that a sensor measures and outputs move, such as [control.air_temperature].

    What is not given is as in the table of docs/control.md.
    """

    method: Literal["pid", "on_off", "dose"] | None = None
    """pid: shares of time, or levels. on_off: on from band below the set point up to it. dose: doses with a
    pause for mixing, for pumps."""

    kp: Gain | None = None
    """Gain of the PID: share of the outputs for each unit below the set point."""

    ti_s: IntegralTime | None = None
    """Integral time of the PID."""

    td_s: DerivativeTime | None = None
    """Derivative time of the PID."""

    band: Band | None = None
    """Hysteresis of on_off; an error that needs no dose."""

    lowers_band: Band | None = None
    """Outputs that lower it run from this far above the set point, and those that raise it again from as far
    below."""

    lowering_kp: Gain | None = None
    """Gain of the outputs that lower it, if they are stronger or weaker."""

    night_kp: Gain | None = None
    """Gain while the lamp is dark."""

    feed_forward: Annotated[float, Meta(ge=-1, le=1)] = 0.0
    """What the lamp at full light adds to the variable, as a share of the outputs that raise it; below 0 if
    it takes away."""

    tank_litres: Annotated[float, Meta(gt=0, le=100_000)] = 20.0
    """For doses: water in the tank and the pipes."""

    ml_per_unit_litre: Volume | None = None
    """For doses: volume that raises one litre by one unit."""

    lowering_ml_per_unit_litre: Volume | None = None
    """For doses: volume that lowers one litre by one unit."""

    most_ml: Annotated[float, Meta(gt=0, le=100_000)] = 50.0
    """For doses: the largest dose."""


def loop_faults(chamber: Chamber) -> Iterator[Finding]:
    """Sections of loops that nothing uses, or whose options do not go together."""
    for variable, options in chamber.options.control.items():
        path = chamber.path("control", variable)
        if reason := _unusable(chamber, variable):
            yield Finding(path, reason)
        elif options.feed_forward and chamber.loop_method(variable) == "dose":
            yield Finding((*path, "feed_forward"), "is for a PID, and this variable is controlled by doses")
    for variable in chamber.loops:
        for path, output in chamber.outputs_by_path.items():
            is_dose = variable in output.moved and chamber.loop_method(variable) == "dose"
            if is_dose and output.flow_ml_min is None:
                yield Finding((*path, "flow_ml_min"), f"is missing; {output.name} gives doses for {variable}")


def _unusable(chamber: Chamber, variable: str) -> str:
    """Why there is no such loop, "" if there may be one."""
    if variable not in VARIABLES or VARIABLES[variable].is_output:
        return f"there is no such variable to control{did_you_mean(variable)}"
    if variable == ILLUMINANCE:
        return "the light is controlled by the section [light]"
    if variable in chamber.loops:
        return ""
    missing = "sensor measures" if variable not in chamber.measured else "output moves"
    return f"no {missing} {variable}, so nothing controls it"
