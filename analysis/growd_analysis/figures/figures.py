"""The figures of a run: what the climate was, how far from the set points, and what was used."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from growd.variables import (
    CARBON_DIOXIDE,
    DAILY_LIGHT_INTEGRAL,
    HUMIDITY,
    ILLUMINANCE,
    TEMPERATURE,
    VAPOUR_PRESSURE_DEFICIT,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PPFD: Final = "light_ppfd"
LUX_PER_PPFD: Final = 67.0
"""Lux for each umol/m2/s of white LEDs: 1000 lx are 15 umol/m2/s (Sharakshane 2018, doi:10.1101/289280)."""

LUX_UNCERTAINTY: Final = 0.15
"""Of that, as a share, for white LEDs alone. With red or blue LEDs the true integral is higher."""

GRAMS_PER_LITRE: Final = 1.84
"""Density of CO2 at 20 degC and 1013 hPa."""


class Rating(msgspec.Struct, frozen=True):
    """What the outputs of a variable consume at full level, None if that is not configured."""

    power_w: float | None = None
    flow_l_min: float | None = None


NO_RATINGS: Final[Mapping[str, Rating]] = MappingProxyType({})


class Tolerance(msgspec.Struct, frozen=True):
    """The allowed distance from a set point: `relative` of it, at least `absolute` in the variable's unit."""

    absolute: float
    relative: float = 0.0

    def band(self, set_point: float) -> float:
        """The allowed distance from this set point."""
        return max(self.absolute, self.relative * abs(set_point))


TOLERANCES: Final = {
    CARBON_DIOXIDE: Tolerance(50.0, 0.05),
    TEMPERATURE: Tolerance(1.0),
    HUMIDITY: Tolerance(5.0),
    ILLUMINANCE: Tolerance(100.0, 0.1),
    PPFD: Tolerance(5.0, 0.1),
    "water_temperature": Tolerance(1.0),
    "water_potential_hydrogen": Tolerance(0.3),
    "water_electrical_conductivity": Tolerance(0.2, 0.1),
    DAILY_LIGHT_INTEGRAL: Tolerance(0.0, 0.05),
    VAPOUR_PRESSURE_DEFICIT: Tolerance(0.1, 0.1),
}
"""Those of CO2 and light are about the bands in which growd calls a set point reached."""

OTHER_TOLERANCE: Final = Tolerance(0.0, 0.1)


class Statistics(msgspec.Struct, frozen=True):
    """Of the values of a variable, each weighted with the time for which it held; None without data.

    A sum, such as the light since midnight, has no `mean`.
    """

    data_s: float
    min: float | None
    mean: float | None
    max: float | None


class Deviation(msgspec.Struct, frozen=True):
    """How far a variable was from its set point while both were known, `compared_s` seconds.

    A sum is compared at the end of each day, and that counts for the whole day.

    The value was unknown for `unknown_s` seconds more. `within` is the share of both times in which it was
    known to be within the tolerance. The longest time without a pause outside of it began at `longest_at`
    (UNIX seconds), None if there was none.
    """

    compared_s: float
    mean_absolute: float | None
    tolerance: Tolerance
    within: float | None
    longest_s: float
    longest_at: float | None
    unknown_s: float = 0.0


class VariableDays(msgspec.Struct, frozen=True):
    """Statistics of each day of the run, in columns as long as `RunFigures.days`."""

    data_s: list[float]
    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]
    mean_absolute: list[float | None]
    within: list[float | None]


class VariableFigures(msgspec.Struct, frozen=True):
    """One measured variable. `day` and `night` are None unless light was planned."""

    variable: str
    unit: str
    whole: Statistics
    day: Statistics | None
    night: Statistics | None
    deviation: Deviation | None
    days: VariableDays


class OutputFigures(msgspec.Struct, frozen=True):
    """One output. `is_counted`: `on_s`, `starts` and its use are from its counters, of what was written.

    Days share these as the commands of each day say. The rest is by its commands, of which a switch is on
    from 0.5 on. `known_s` is the time with a known command, `on_s` the part of it with the output on,
    `starts` how often it was switched on, `mean_level` the mean command. `starts` of a time of which only
    rollups are left are not known: then it is None. `litres` are known if the flow is configured,
    `energy_kwh` if the power is; `grams` are those of CO2.
    """

    variable: str
    unit: str
    known_s: float
    on_s: float
    starts: int | None
    mean_level: float | None
    days_known_s: list[float]
    days_on_s: list[float]
    days_starts: list[int] | None
    litres: float | None = None
    grams: float | None = None
    days_litres: list[float] | None = None
    energy_kwh: float | None = None
    is_counted: bool = False


class LightIntegral(msgspec.Struct, frozen=True):
    """The light of each day of the run in mol/m2, of the time with data (`data_s` of that variable).

    From PPFD; or from illuminance, divided by `lux_per_ppfd`, with an `uncertainty` as a share.
    """

    variable: str
    total: float
    days: list[float | None]
    lux_per_ppfd: float | None = None
    uncertainty: float | None = None


class EventFigures(msgspec.Struct, frozen=True):
    """Events of one kind and source. `times` are pairs of begin and end in UNIX seconds, at most 100.

    The end is None if it is not known, or if the kind has none. `lasted_s` adds up the known ones.
    """

    kind: str
    source: str
    count: int
    lasted_s: float
    times: list[tuple[float, float | None]]


class Gap(msgspec.Struct, frozen=True):
    """A time in which growd did not run, in UNIX seconds. It is not `clean` after a kill or a power cut."""

    begin: float
    end: float
    clean: bool


class HandReading(msgspec.Struct, frozen=True):
    """A measurement by hand."""

    time: float
    variable: str
    value: float
    unit: str
    by: str


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run from `start` to `end` (UNIX seconds), as its document keeps them.

    `days` are the UNIX times at which its days begin: its start, then local midnights. `light_s` and `dark_s`
    are the times of planned light and darkness. Before `rolled_up_until` (UNIX seconds) they are made from
    five-minute rollups, since the points were retired; see docs/runs.md. A new member here and in the parts
    needs a default: figures that documents keep lack it, and would count as of another form.
    """

    start: float
    end: float
    days: list[float]
    light_s: float
    dark_s: float
    variables: list[VariableFigures]
    outputs: list[OutputFigures]
    light: LightIntegral | None
    events: list[EventFigures]
    gaps: list[Gap]
    by_hand: list[HandReading]
    rolled_up_until: float | None = None

    def variable(self, name: str) -> VariableFigures | None:
        """The figures of a variable, None if it was not measured."""
        return next((one for one in self.variables if one.variable == name), None)
