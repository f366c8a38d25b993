"""Sections of control: filters, the controller of CO2, interlocks, recipes."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from growd.config.base import Fraction, Seconds, Section


class FilterOptions(Section, frozen=True):
    """The way from a raw value to a measured one."""

    weight: Annotated[float, Meta(ge=0.001, le=1)] = 0.3
    """Of a new sample in the moving average; 1: no average."""

    stale_after_s: Seconds = 30.0
    """A value that is not renewed for as long is stale."""


class CarbonDioxide(Section, frozen=True):
    """How the set point of CO2 is kept, where a sensor measures it and a relay has a valve for it.

    The gains are for the simulated chamber; the service autotune finds those of another, and they are
    kept. docs/control.md has the whole of it.
    """

    method: Literal["pid", "on_off"] = "pid"
    """By a PID with doses, or open from band_ppm below the set point up to it."""

    kp_per_ppm: Annotated[float, Meta(ge=0, le=100)] = 0.003
    """Gain of the PID: share of time that the valve is open, for each ppm below the set point."""

    ti_s: Annotated[float, Meta(ge=1, le=864_000)] = 2_400.0
    """Integral time of the PID."""

    td_s: Annotated[float, Meta(ge=0, le=3_600)] = 20.0
    """Derivative time of the PID."""

    set_point_weight: Fraction = 1.0
    """How much of a step of the set point the proportional part sees."""

    band_ppm: Annotated[float, Meta(ge=0, le=10_000)] = 20.0
    """Hysteresis of on_off."""

    fan_band_ppm: Annotated[float, Meta(ge=0, le=10_000)] = 30.0
    """From so much above the set point on an exhaust fan helps, where a relay has one."""

    minimum_on_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 4.0
    """The shortest dose."""

    minimum_off_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 2.0
    """The shortest pause between doses."""

    fan_minimum_on_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 10.0
    """The shortest run of the fan."""

    fan_minimum_off_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 10.0
    """The shortest pause of the fan."""

    autotune_open_s: Annotated[float, Meta(ge=1, le=600)] = 120.0
    """The longest dose that autotune gives."""

    override_s: Seconds = 600.0
    """A command by hand holds for as long."""


class InterlockOptions(Section, frozen=True):
    """What no recipe, client or controller passes; docs/control.md tells what each interlock is for."""

    ceiling_ppm: Annotated[float, Meta(ge=1_000, le=30_000)] = 5_000.0
    """From here on the valve for CO2 is shut, and the exhaust fan runs."""

    ceiling_hysteresis_ppm: Annotated[float, Meta(ge=10, le=900)] = 500.0
    """Until CO2 is lower by this."""

    ceiling_starts_fan: bool = True
    """Whether the fan runs then."""

    valve_open_s: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """The valve is open for as long at a stretch at most."""

    valve_rest_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    """And then shut for as long."""

    dose_s: Annotated[float, Meta(ge=1, le=3_600)] = 1_800.0
    """The valve is open for so much of an hour at most; 3600: no limit."""

    dose_litres: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    """The same as a volume an hour; takes valve_flow_l_min."""

    valve_flow_l_min: Annotated[float, Meta(gt=0, le=1_000)] | None = None
    """The flow of an open valve."""

    no_rise_open_s: Annotated[float, Meta(ge=30, le=86_400)] = 180.0
    """After as long with the valve open and no rise of CO2 it stays shut until someone has looked."""

    no_rise_ppm: Annotated[float, Meta(ge=20, le=5_000)] = 40.0
    """What counts as a rise."""

    light_off_degc: Annotated[float, Meta(ge=0, le=85)] = 35.0
    """The lamp is off from this temperature of the air on."""

    light_hysteresis_degc: Annotated[float, Meta(ge=0.1, le=20)] = 2.0
    """Until it is lower by this."""

    light_hours: Annotated[float, Meta(gt=0, le=24)] = 24.0
    """The lamp is off for the rest of a day on which it was on for so long; 24: no limit."""

    @property
    def dose_limit_s(self) -> float:
        """The dose per hour, in seconds that a valve is open."""
        if self.dose_litres is None or self.valve_flow_l_min is None:
            return self.dose_s
        return self.dose_litres / self.valve_flow_l_min * 60.0


class Recipe(Section, frozen=True):
    """How recipes run."""

    after_outage: Literal["where_it_would_be", "where_it_stopped"] = "where_it_would_be"
    """Where a recipe goes on after growd or the machine did not run."""
