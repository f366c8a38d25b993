"""The accounts of one measured variable, one output, and one kind of event of a run.

Values hold for a time, and statistics weight each with that time.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import Final, NamedTuple

import msgspec

from growd.variables import DAILY_LIGHT_INTEGRAL, DEGREE_DAYS, PHOTOPERIOD, VALVE, VARIABLES
from growd_analysis.figures.figures import (
    GRAMS_PER_LITRE,
    OTHER_TOLERANCE,
    TOLERANCES,
    Deviation,
    EventFigures,
    OutputFigures,
    Rating,
    Statistics,
    Tolerance,
    VariableDays,
    VariableFigures,
)


class Held(NamedTuple):
    """A value that held from `begin` to `end` (UNIX seconds), between `low` and `high`.

    `error` is its distance from the set point, None without one.
    """

    begin: float
    end: float
    value: float
    low: float
    high: float
    error: float | None
    is_within: bool


class Tally:
    """Sums of held values. `unknown_s` is the time with a set point and without a value."""

    __slots__ = ("compared_s", "error_s", "high", "low", "seconds", "total", "unknown_s", "within_s")

    def __init__(self) -> None:
        self.seconds = self.total = 0.0
        self.low, self.high = inf, -inf
        self.compared_s = self.error_s = self.within_s = self.unknown_s = 0.0

    def add(self, held: Held) -> None:
        """Count a value for the time that it held."""
        seconds = held.end - held.begin
        self.seconds += seconds
        self.total += seconds * held.value
        self.low = min(self.low, held.low)
        self.high = max(self.high, held.high)
        if held.error is not None:
            self.compared_s += seconds
            self.error_s += seconds * abs(held.error)
            if held.is_within:
                self.within_s += seconds

    def statistics(self) -> Statistics:
        """Minimum, mean and maximum; None without data."""
        if not self.seconds:
            return Statistics(0.0, None, None, None)
        return Statistics(round(self.seconds, 3), self.low, short(self.total / self.seconds), self.high)

    @property
    def mean_absolute(self) -> float | None:
        """The mean distance from the set point, None if there was none."""
        return short(self.error_s / self.compared_s) if self.compared_s else None

    @property
    def within(self) -> float | None:
        """The share of the time with a set point within the tolerance. An unknown value is not."""
        return short(self.within_s / (self.compared_s + self.unknown_s)) if self.compared_s else None


class Excursions:
    """The longest time without a pause in which a value was outside its tolerance."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.longest_at: float | None = None
        self._begin = self._end = -inf

    def add(self, held: Held) -> None:
        """Count a value, in the order of time."""
        if held.error is None or held.is_within:
            self._end = -inf
            return
        if held.begin > self._end:
            self._begin = held.begin
        self._end = held.end
        if self._end - self._begin > self.longest_s:
            self.longest_s, self.longest_at = self._end - self._begin, self._begin

    def deviation(self, whole: Tally, tolerance: Tolerance) -> Deviation | None:
        """Together with the sums of the same values; None if nothing was compared."""
        if not whole.compared_s:
            return None
        return Deviation(
            round(whole.compared_s, 3),
            whole.mean_absolute,
            tolerance,
            whole.within,
            round(self.longest_s, 3),
            self.longest_at,
            round(whole.unknown_s, 3),
        )


def short(number: float) -> float:
    """Nine digits, which is more than any sensor has."""
    return float(f"{number:.9g}")


SUMS: Final = frozenset({DAILY_LIGHT_INTEGRAL, PHOTOPERIOD, DEGREE_DAYS})
"""Variables that add up from midnight, or from the start of a run, on."""

ON: Final = 0.5
"""A switch is on from this command on."""

MOST_TIMES: Final = 100


class VariableAccount:
    """A measured variable: its value in force, and the sums of those before. Times are UNIX seconds.

    `begin` is the start of the run, before which nothing is counted. `by_hand` of its `values` are
    measurements by hand. A sum, such as the light since midnight, has no mean, and is compared with the set
    point once a day, at its end.
    """

    def __init__(self, variable: str, begin: float) -> None:
        self.variable = variable
        self.set_point: float | None = None
        self.values = self.by_hand = 0
        self.whole, self.by_light = Tally(), (Tally(), Tally())  # all, and of darkness and light
        self.days: defaultdict[int, Tally] = defaultdict(Tally)
        self._is_sum = variable in SUMS
        self._compared = Tally() if self._is_sum else self.whole
        self._days_compared = defaultdict(Tally) if self._is_sum else self.days
        self._day, self._day_since = 0, begin
        self.day_ends: dict[int, float] = {}  # of a sum, where it is known
        self.wanted: float | None = None  # the last set point of the day
        self._excursions = Excursions()
        self._tolerance = TOLERANCES.get(variable, OTHER_TOLERANCE)
        self._begin = begin
        self._value: tuple[float, float, float] | None = None  # with its lowest and highest
        self._since = self._until = begin

    def count(self, now: float, day: int, *, is_light: bool | None) -> None:
        """Count the value in force up to now, in a day of the run, and in light or darkness."""
        if self._is_sum:
            self._judge_day(day)
        end = min(now, self._until)
        if self._value is not None and end > self._since:
            value, low, high = self._value
            held = self._held(self._since, end, value, None if self._is_sum else self.set_point)
            held = held._replace(low=low, high=high)
            for tally in (self.whole, self.days[day]):
                tally.add(held)
            if is_light is not None:
                self.by_light[is_light].add(held)
            self._excursions.add(held)
        if self.set_point is not None and not self._is_sum:
            known_until = self._since if self._value is None else max(end, self._since)
            for tally in (self.whole, self.days[day]):
                tally.unknown_s += max(0.0, now - known_until)
        self._since = max(now, self._begin)

    def begin(self, value: float, until: float, low: float | None = None, high: float | None = None) -> None:
        """A value that holds from now on, until a time at most."""
        self._value = (value, value if low is None else low, value if high is None else high)
        self._until = until

    @property
    def is_known(self) -> bool:
        """Whether there is a value in force, which may be too old."""
        return self._value is not None

    def end(self) -> None:
        """Nothing is known from now on."""
        self._value = None

    def figures(self, days: int, *, has_light: bool) -> VariableFigures:
        """The figures; `days` is the number of days of the run."""
        dark, light = self.by_light
        known = VARIABLES.get(self.variable)
        return VariableFigures(
            self.variable,
            known.unit if known else "",
            self._statistics(self.whole),
            self._statistics(light) if has_light else None,
            self._statistics(dark) if has_light else None,
            self._excursions.deviation(self._compared, self._tolerance),
            self._by_day(days),
        )

    def _held(self, begin: float, end: float, value: float, set_point: float | None) -> Held:
        error = None if set_point is None else value - set_point
        is_within = error is not None and abs(error) <= self._tolerance.band(set_point or 0.0)
        return Held(begin, end, value, value, value, error, is_within)

    def _judge_day(self, day: int) -> None:
        """Compare the sum with the set point if a day has ended, at the last call."""
        if day != self._day:
            midnight = self._since
            if self._value is not None and self._until >= midnight:
                self.day_ends[self._day] = self._value[0]
            if self._day in self.day_ends and self.wanted is not None:
                held = self._held(self._day_since, midnight, self.day_ends[self._day], self.wanted)
                for tally in (self._compared, self._days_compared[self._day]):
                    tally.add(held)
                self._excursions.add(held)
            self._day, self._day_since, self.wanted = day, midnight, None
        self.wanted = self.wanted if self.set_point is None else self.set_point

    def _statistics(self, tally: Tally) -> Statistics:
        found = tally.statistics()
        return msgspec.structs.replace(found, mean=None) if self._is_sum else found

    def _by_day(self, days: int) -> VariableDays:
        statistics = [self._statistics(self.days.get(day) or Tally()) for day in range(days)]
        tallies = [self._days_compared.get(day) or Tally() for day in range(days)]
        return VariableDays(
            [one.data_s for one in statistics],
            [one.min for one in statistics],
            [one.mean for one in statistics],
            [one.max for one in statistics],
            [tally.mean_absolute for tally in tallies],
            [tally.within for tally in tallies],
        )


class OutputAccount:
    """An output, by its commands. A command holds until the next one, and at most until a time.

    While it `is_held_off` by an interlock, it counts as off.
    """

    def __init__(self, variable: str, begin: float) -> None:
        self.variable = variable
        self.known_s = self.on_s = self.level_s = 0.0
        self.starts: int | None = 0
        self.is_held_off = False
        self._days_known_s: defaultdict[int, float] = defaultdict(float)
        self._days_on_s: defaultdict[int, float] = defaultdict(float)
        self._days_starts: defaultdict[int, int] = defaultdict(int)
        known = VARIABLES.get(variable)
        self._is_switch = known is not None and known.unit == "switch"
        self._begin = begin
        self._level: float | None = None
        self._was_on = False
        self._since = self._until = begin

    def count(self, now: float, day: int) -> None:
        """Count the command in force up to now."""
        end, level = min(now, self._until), self._effective
        seconds = end - self._since
        if level is not None and seconds > 0:
            self.known_s += seconds
            self._days_known_s[day] += seconds
            self.level_s += seconds * level
            if level >= ON:
                self.on_s += seconds
                self._days_on_s[day] += seconds
            if level >= ON and not self._was_on:
                self._days_starts[day] += 1
                if self.starts is not None:
                    self.starts += 1
            self._was_on = level >= ON
        if now > self._until:
            self._was_on = False
        self._since = max(now, self._begin)

    def level_at(self, now: float) -> float | None:
        """The command in force, None if there is none."""
        return self._level if now <= self._until else None

    def begin(self, level: float, until: float) -> None:
        """A command that holds from now on, until a time at most."""
        self._level, self._until = level, until

    def end(self) -> None:
        """No command is known from now on."""
        self._level, self._was_on = None, False

    def forget_starts(self) -> None:
        """The starts of a time are not known."""
        self.starts = None

    def figures(self, days: int, rating: Rating) -> OutputFigures:
        """The figures, with what outputs of this rating consumed."""
        on_s = [round(self._days_on_s.get(day, 0.0), 3) for day in range(days)]
        flow, power_w = rating.flow_l_min, rating.power_w
        has_days = flow is not None and self._is_switch
        litres = None if flow is None else short(self._full_s(self.on_s) / 60 * flow)
        grams = short(litres * GRAMS_PER_LITRE) if litres is not None and self.variable == VALVE else None
        known = VARIABLES.get(self.variable)
        return OutputFigures(
            self.variable,
            known.unit if known else "",
            round(self.known_s, 3),
            round(self.on_s, 3),
            self.starts,
            short(self.level_s / self.known_s) if self.known_s else None,
            [round(self._days_known_s.get(day, 0.0), 3) for day in range(days)],
            on_s,
            None if self.starts is None else [self._days_starts.get(day, 0) for day in range(days)],
            litres,
            grams,
            [short(seconds / 60 * (flow or 0.0)) for seconds in on_s] if has_days else None,
            None if power_w is None else short(self._full_s(self.on_s) * power_w / 3.6e6),
        )

    def _full_s(self, on_s: float) -> float:
        """Seconds at full level with the same effect: a switch is on or off, others have levels."""
        return on_s if self._is_switch else self.level_s

    @property
    def _effective(self) -> float | None:
        return 0.0 if self.is_held_off and self._level is not None else self._level


class EventAccount:
    """The events of one kind and source. Times before `begin`, the start of the run, do not count."""

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self._count, self._lasted_s = 0, 0.0
        self._times: list[tuple[float, float | None]] = []
        self._opened: float | None = None

    def happened(self, time: float) -> None:
        """An event without an end."""
        if time >= self._begin:
            self._add(time, None)

    def opened(self, time: float) -> None:
        """It begins; one that lasts already goes on."""
        if self._opened is None:
            self._opened = time

    def closed(self, time: float) -> None:
        """It ends, if it lasted."""
        opened, self._opened = self._opened, None
        if opened is not None and time > self._begin:
            begin = max(opened, self._begin)
            self._lasted_s += time - begin
            self._add(begin, time)

    def figures(self, kind: str, source: str) -> EventFigures | None:
        """The figures after the last event, None if there was none in the run."""
        if self._opened is not None:
            self._add(max(self._opened, self._begin), None)
            self._opened = None
        return (
            EventFigures(kind, source, self._count, round(self._lasted_s, 3), self._times)
            if self._count
            else None
        )

    def _add(self, begin: float, end: float | None) -> None:
        self._count += 1
        if len(self._times) < MOST_TIMES:
            self._times.append((begin, end))
