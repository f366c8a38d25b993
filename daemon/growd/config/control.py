"""Sections of control: filters, interlocks, light of a day, recipes."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from growd.config.base import TIME_OF_DAY, Seconds, Section

TimeOfDay = Annotated[str, Meta(pattern=TIME_OF_DAY)]
"""Such as "06:00"."""


class FilterOptions(Section, frozen=True):
    """From raw values to measured values."""

    weight: Annotated[float, Meta(ge=0.001, le=1)] = 0.3
    """Weight of a new sample in the moving average; 1 switches averaging off."""

    stale_after_s: Seconds = 30.0
    """A value that is not renewed for this long is stale."""


class InterlockOptions(Section, frozen=True):
    """Safety limits that no recipe, client or controller can override. docs/control.md describes each
    interlock.
    """

    ceiling_ppm: Annotated[float, Meta(ge=1_000, le=30_000)] = 5_000.0
    """From this concentration on the CO2 valve is closed and the exhaust fan runs."""

    valve_open_s: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    """Longest time for which the valve may be open without a pause."""

    dose_s: Annotated[float, Meta(ge=1, le=3_600)] = 1_800.0
    """Longest open time of the valve within an hour; 3600 is no limit."""

    no_rise_open_s: Annotated[float, Meta(ge=30, le=86_400)] = 180.0
    """The valve is closed until a reset if it was open this long and CO2 did not rise."""

    light_off_degc: Annotated[float, Meta(ge=0, le=85)] = 35.0
    """The lamp is dark from this air temperature on."""

    light_hours: Annotated[float, Meta(gt=0, le=24)] = 24.0
    """Longest time for which the lamp may be on within a day; 24 is no limit."""

    heater_off_degc: Annotated[float, Meta(ge=10, le=85)] = 40.0
    """Heaters of the air are off from this air temperature on."""

    water_heater_off_degc: Annotated[float, Meta(ge=10, le=60)] = 32.0
    """Heaters of the water are off from this water temperature on."""

    dose_longest_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 30.0
    """Longest dose of a dosing pump."""

    mixing_pause_s: Annotated[float, Meta(ge=0, le=86_400)] = 300.0
    """Pause of all dosing pumps after a dose."""

    dosing_ml_per_hour: Annotated[float, Meta(gt=0, le=1_000_000)] = 50.0
    """Largest volume of the dosing pumps of one own variable, such as nutrient_a, within an hour."""

    dosing_ml_per_day: Annotated[float, Meta(gt=0, le=1_000_000)] = 200.0
    """The same within 24 hours."""

    acid_off_ph: Annotated[float, Meta(ge=4, le=6)] = 5.0
    """Pumps that lower the pH are off from this measured pH down."""

    base_off_ph: Annotated[float, Meta(ge=6.5, le=8.5)] = 7.5
    """Pumps that raise the pH are off from this measured pH up."""

    nutrients_off_ms_cm: Annotated[float, Meta(ge=0.5, le=6)] = 3.5
    """Pumps for nutrients and base are off from this measured conductivity up."""


class DerivedOptions(Section, frozen=True):
    """Variables that growd calculates. docs/variables.md has their formulas."""

    base_temperature_degc: Annotated[float, Meta(ge=-20, le=30)] = 10.0
    """Base temperature of growing degree days: about 10 for maize and tomatoes, 4 for lettuce."""


class LightPlan(Section, frozen=True):
    """The day of a set point of light_daily_integral. docs/control.md describes the plan."""

    begin: TimeOfDay = "06:00"
    """From this time of day on the lamp may be lit."""

    end: TimeOfDay = "22:00"
    """From this time of day on the lamp is dark; before `begin` for light over midnight."""

    ramp_s: Annotated[float, Meta(ge=0, le=14_400)] = 0.0
    """Sunrise and sunset: the light rises after `begin` and falls before `end` for this time."""

    least_umol: Annotated[float, Meta(ge=0, le=5_000)] = 0.0
    """The lamp fills daylight up to this PPFD in any case."""

    most_umol: Annotated[float, Meta(gt=0, le=5_000)] | None = None
    """The lamp fills daylight up to this PPFD at most. Default: full light."""

    @property
    def window_s(self) -> tuple[float, float]:
        """The beginning and the end in seconds after midnight."""
        return seconds_of_day(self.begin), seconds_of_day(self.end)


def seconds_of_day(time_of_day: str) -> float:
    """Seconds after midnight of a time such as "06:30"."""
    hours, _, minutes = time_of_day.partition(":")
    return int(hours) * 3_600.0 + int(minutes) * 60.0


class Recipe(Section, frozen=True):
    """How recipes run."""

    after_outage: Literal["where_it_would_be", "where_it_stopped"] = "where_it_would_be"
    """Where a recipe resumes after an outage of growd or of the machine."""
