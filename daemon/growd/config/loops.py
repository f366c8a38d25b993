"""Sections of control loops: [control.<variable>], one for each variable that outputs drive."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from growd.config.base import Section

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
