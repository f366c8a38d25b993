"""Sections of control: filters, the controller of CO2, interlocks, recipes."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from growd.config.base import Fraction, Seconds, Section


class FilterOptions(Section, frozen=True):
    """From raw values to measured values."""

    weight: Annotated[float, Meta(ge=0.001, le=1)] = 0.3
    """Weight of a new sample in the moving average; 1 switches averaging off."""

    stale_after_s: Seconds = 30.0
    """A value that is not renewed for this long is stale."""


class CarbonDioxide(Section, frozen=True):
    """Control of CO2, in an environment with a CO2 sensor and a valve.

    The default gains fit the simulated chamber. The service autotune finds the gains of another chamber and
    stores them. docs/control.md describes the controller.
    """

    method: Literal["pid", "on_off"] = "pid"
    """pid: a PID with doses. on_off: open from band_ppm below the set point up to it."""

    kp_per_ppm: Annotated[float, Meta(ge=0, le=100)] = 0.003
    """Gain of the PID: share of time with an open valve, for each ppm below the set point."""

    ti_s: Annotated[float, Meta(ge=1, le=864_000)] = 2_400.0
    """Integral time of the PID."""

    td_s: Annotated[float, Meta(ge=0, le=3_600)] = 20.0
    """Derivative time of the PID."""

    set_point_weight: Fraction = 1.0
    """Share of a set point step that the proportional part sees."""

    band_ppm: Annotated[float, Meta(ge=0, le=10_000)] = 20.0
    """Hysteresis of on_off."""

    fan_band_ppm: Annotated[float, Meta(ge=0, le=10_000)] = 30.0
    """The exhaust fan runs from this far above the set point."""

    minimum_on_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 4.0
    """The shortest dose."""

    minimum_off_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 2.0
    """The shortest pause between doses."""

    fan_minimum_on_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 10.0
    """The shortest run of the fan."""

    fan_minimum_off_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 10.0
    """The shortest pause of the fan."""

    autotune_open_s: Annotated[float, Meta(ge=1, le=600)] = 120.0
    """The longest dose of the autotune."""

    override_s: Seconds = 600.0
    """How long an override holds."""


class InterlockOptions(Section, frozen=True):
    """Safety limits that no recipe, client or controller can override. docs/control.md describes each
    interlock.
    """

    ceiling_ppm: Annotated[float, Meta(ge=1_000, le=30_000)] = 5_000.0
    """From this concentration on the CO2 valve is closed and the exhaust fan runs."""

    ceiling_hysteresis_ppm: Annotated[float, Meta(ge=10, le=900)] = 500.0
    """CO2 must fall this far below the ceiling to end that."""

    ceiling_starts_fan: bool = True
    """Run the exhaust fan above the ceiling."""

    valve_open_s: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """Longest time for which the valve may be open without a pause."""

    valve_rest_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    """How long the valve is closed after that."""

    dose_s: Annotated[float, Meta(ge=1, le=3_600)] = 1_800.0
    """Longest open time of the valve within an hour; 3600 is no limit."""

    dose_litres: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    """The same limit as a volume of CO2 in an hour; needs valve_flow_l_min."""

    valve_flow_l_min: Annotated[float, Meta(gt=0, le=1_000)] | None = None
    """Flow of the open valve."""

    no_rise_open_s: Annotated[float, Meta(ge=30, le=86_400)] = 180.0
    """The valve is closed until a reset if it was open this long and CO2 did not rise."""

    no_rise_ppm: Annotated[float, Meta(ge=20, le=5_000)] = 40.0
    """The smallest change that counts as a rise."""

    light_off_degc: Annotated[float, Meta(ge=0, le=85)] = 35.0
    """The lamp is dark from this air temperature on."""

    light_hysteresis_degc: Annotated[float, Meta(ge=0.1, le=20)] = 2.0
    """The temperature must fall this far below the limit to end that."""

    light_hours: Annotated[float, Meta(gt=0, le=24)] = 24.0
    """Longest time for which the lamp may be on within a day; 24 is no limit."""

    @property
    def dose_limit_s(self) -> float:
        """The dose per hour, in seconds that a valve is open."""
        if self.dose_litres is None or self.valve_flow_l_min is None:
            return self.dose_s
        return self.dose_litres / self.valve_flow_l_min * 60.0


class Recipe(Section, frozen=True):
    """How recipes run."""

    after_outage: Literal["where_it_would_be", "where_it_stopped"] = "where_it_would_be"
    """Where a recipe resumes after an outage of growd or of the machine."""
