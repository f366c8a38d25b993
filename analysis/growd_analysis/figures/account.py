"""Adds up the figures of a run from its points, which come in the order of their times."""

from __future__ import annotations

import copy
from datetime import datetime, time, timedelta
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.bus.messages import Quality
from growd.store.history.buckets import as_number
from growd.variables import (
    CARBON_DIOXIDE,
    DAILY_LIGHT_INTEGRAL,
    HUMIDITY,
    ILLUMINANCE,
    VALVE,
    VAPOUR_PRESSURE_DEFICIT,
    VARIABLES,
)
from growd_analysis.figures.figures import (
    LUX_PER_PPFD,
    LUX_UNCERTAINTY,
    NO_RATINGS,
    PPFD,
    Gap,
    HandReading,
    LightIntegral,
    Rating,
    RunFigures,
)
from growd_analysis.figures.series_account import EventAccount, OutputAccount, VariableAccount, short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import tzinfo

    from growd.store.reading.source import ExportedPoint

MOST_BY_HAND: Final = 1_000
MOST_GAPS: Final = 1_000
LIGHTS: Final = (PPFD, ILLUMINANCE, *(f"light_intensity_{name}" for name in ("white", "red", "blue")))
"""Light is planned while a set point of one of these is above 0."""

OVERRIDES: Final = {
    HUMIDITY: (VAPOUR_PRESSURE_DEFICIT,),
    ILLUMINANCE: (PPFD, DAILY_LIGHT_INTEGRAL),
    PPFD: (DAILY_LIGHT_INTEGRAL,),
}
"""Which set points have no effect while a variable has one that does not follow from them."""

CLOSE_VALVE: Final = frozenset(
    {
        "carbon_dioxide_ceiling",
        "valve_open_too_long",
        "dose_per_hour",
        "no_rise_after_dose",
        f"{CARBON_DIOXIDE}_unknown",
    }
)
"""Interlocks that keep the CO2 valve closed whatever its command is."""


class Bucket(NamedTuple):
    """A bucket of a rollup, from `start` to `end` (UNIX seconds), that stands for so many `points`."""

    category: str
    variable: str
    start: float
    end: float
    low: float | None
    mean: float | None
    high: float | None
    last: float | None
    last_at: float
    points: int


class RunAccount:
    """The figures of a run from `start` to `end` (UNIX seconds).

    `take` gets the points of its environment in the order of their times; points before `start` give the
    state at the start. `zone` is that of its days, None that of the machine. `holds_s` gives the seconds that
    a value of a variable holds. `ratings` are those of the outputs, by variable. `written` are the variables
    that its recipes name. Before `raw_from` buckets stand for measured values and commands. `end` and
    `raw_from` may grow.
    """

    def __init__(
        self,
        start: float,
        end: float,
        zone: tzinfo | None,
        *,
        holds_s: Callable[[str], float],
        ratings: Mapping[str, Rating] = NO_RATINGS,
        written: frozenset[str] = frozenset(),
    ) -> None:
        self._start, self.end, self._zone, self._written = start, end, zone, written
        self._holds_s, self._ratings, self.raw_from = holds_s, ratings, 0.0
        self._variables: dict[str, VariableAccount] = {}
        self._outputs: dict[str, OutputAccount] = {}
        self._events: dict[tuple[str, str], EventAccount] = {}
        self._set_points: dict[str, ExportedPoint] = {}
        self._planned: set[str] = set()  # of these, those that follow from others
        self._left: list[ExportedPoint] = []  # set points by hand of before a restart
        self._tripped: set[str] = set()
        self._is_light: bool | None = None
        self._light_since = start
        self._light_s = [0.0, 0.0]  # darkness and light
        self._days = [start]
        self._midnight = _next_midnight(start, zone)
        self._seen: float | None = None  # the last sign that growd ran
        self._stopped: float | None = None
        self._gaps: list[Gap] = []
        self._by_hand: list[HandReading] = []
        self._rolled_up_until: float | None = None

    def copied(self) -> RunAccount:
        """An independent copy."""
        shared = {id(each): each for each in (self._holds_s, self._zone, self._ratings)}
        return copy.deepcopy(self, shared)

    def take(self, point: ExportedPoint) -> None:
        """Count a point."""
        now = min(point.timestamp, self.end)
        if point.kind == "event" and point.variable == "restart":
            self._restart(now)
        self._pass_midnights(now)
        match point.kind:
            case "measured":
                self._measure(point, now)
            case "desired":
                self._set(point, now)
            case "commanded":
                self._command(point.variable, as_number(point.value), now)
            case "quality" if point.value != Quality.OK and point.variable in self._variables:
                self._count(self._variables[point.variable], now)
                self._variables[point.variable].end()
            case "event":
                self._happen(point, now)
        self._seen = now

    def roll(self, bucket: Bucket) -> None:
        """Count a bucket in place of its points, from its start on."""
        now = min(bucket.start, self.end)
        self._pass_midnights(now)
        self._rolled_up_until = max(self._rolled_up_until or 0.0, min(bucket.end, self.end))
        if bucket.category == "measured":
            self._roll_measured(bucket, now)
        elif bucket.category == "commanded" and bucket.variable in VARIABLES:
            self._roll_commanded(bucket, now)
        self._seen = now

    def roll_end(self, bucket: Bucket) -> None:
        """Its end: from then on its last value holds."""
        now = min(bucket.end, self.end)
        self._pass_midnights(now)
        if bucket.last is None:
            return
        until = bucket.last_at + self._holds_s(bucket.variable)
        if bucket.category == "measured":
            account = self._variable(bucket.variable)
            if account.is_known:  # no break came after it
                self._count(account, now)
                account.begin(bucket.last, until)
        elif bucket.variable in self._outputs:
            output = self._outputs[bucket.variable]
            output.count(now, len(self._days) - 1)
            output.begin(bucket.last, until)

    def figures(self) -> RunFigures:
        """The figures, after the last point, once."""
        self._pass_midnights(self.end)
        if self._stopped is not None:
            self._add_gap(self._stopped, self.end, clean=True)
        self._count_all(self.end)
        days = len(self._days)
        dark_s, light_s = self._light_s
        has_light = light_s > 0
        events = [one.figures(*place) for place, one in sorted(self._events.items())]
        return RunFigures(
            start=self._start,
            end=self.end,
            days=self._days,
            light_s=round(light_s, 3),
            dark_s=round(dark_s, 3),
            variables=[
                one.figures(days, has_light=has_light)
                for _, one in sorted(self._variables.items())
                if one.whole.seconds and one.values > one.by_hand
            ],
            outputs=[
                one.figures(days, self._ratings.get(name, Rating()))
                for name, one in sorted(self._outputs.items())
                if one.known_s
            ],
            light=self._light_integral(days),
            events=[one for one in events if one is not None],
            gaps=self._gaps,
            by_hand=self._by_hand,
            rolled_up_until=self._rolled_up_until,
        )

    # points

    def _measure(self, point: ExportedPoint, now: float) -> None:
        value, name = as_number(point.value), point.variable
        if value is None or isnan(value):
            return
        account = self._variable(name)
        if point.is_manual:
            self._note_reading(point, value)
            account.by_hand += 1
        if point.timestamp < self.raw_from:  # it is part of a bucket
            return
        account.values += 1
        self._count(account, now)
        account.begin(value, point.timestamp + self._holds_s(name))

    def _note_reading(self, point: ExportedPoint, value: float) -> None:
        if point.timestamp >= self._start and len(self._by_hand) < MOST_BY_HAND:
            known = VARIABLES.get(point.variable)
            by = point.by if isinstance(point.by, str) else ""
            self._by_hand.append(
                HandReading(point.timestamp, point.variable, value, known.unit if known else "", by)
            )

    def _set(self, point: ExportedPoint, now: float) -> None:
        value, name = as_number(point.value), point.variable
        if value is not None and isnan(value):  # the start or end of a recipe
            return
        self._note_set_point(point, value)
        if name in LIGHTS:
            is_light = any((self._in_force(light) or 0.0) > 0 for light in LIGHTS)
            if is_light is not self._is_light:
                self._count_all(now)
                self._is_light = is_light
        for each in (name, *OVERRIDES.get(name, ())):
            account = self._variable(each)
            self._count(account, now)
            account.set_point = self._in_force(each)
            if account.set_point is None and each in self._set_points:
                account.wanted = None

    def _note_set_point(self, point: ExportedPoint, value: float | None) -> None:
        """Note a set point, and whether it follows from another one: then it came after that one."""
        name, sources = point.variable, OVERRIDES.get(point.variable, ())
        before = self._set_points.pop(name, None)
        follows = name not in self._written or (
            not self._written.isdisjoint(sources)
            and not self._set_points.keys().isdisjoint(sources)
            and (before is None or name in self._planned)
        )
        self._planned.discard(name)
        if value is not None:
            self._set_points[name] = point
            if follows and not point.is_manual:
                self._planned.add(name)

    def _in_force(self, name: str) -> float | None:
        """The set point of a variable, None without one, and while another one wins."""
        winners = {winner for winner, sources in OVERRIDES.items() if name in sources}
        point = self._set_points.get(name) if winners & self._set_points.keys() <= self._planned else None
        return None if point is None else as_number(point.value)

    def _command(self, name: str, level: float | None, now: float) -> None:
        if name not in VARIABLES or not VARIABLES[name].is_output or (level is not None and isnan(level)):
            return
        account = self._output(name)
        account.count(now, len(self._days) - 1)
        if level is None:
            account.end()
        else:
            account.begin(level, now + self._holds_s(name))

    def _happen(self, point: ExportedPoint, now: float) -> None:
        source, colon, message = str(point.value).partition(": ")
        kind = "fault" if point.variable == "recovery" else point.variable
        if kind == "note" or not colon:
            source = ""
        account = self._events.setdefault((kind, source), EventAccount(self._start))
        match point.variable:
            case "fault":
                account.opened(now)
            case "recovery":
                account.closed(now)
            case "interlock":
                self._trip(account, source, now, has_tripped=message != "released")
            case "hold" if message.endswith("is released") or "is released by" in message:
                account.closed(now)
            case "hold":
                account.opened(now)
            case "stop":
                account.happened(now)
                self._end_all(now)
                self._stopped = now
            case _:
                account.happened(now)

    def _trip(self, account: EventAccount, name: str, now: float, *, has_tripped: bool) -> None:
        if has_tripped:
            account.opened(now)
            self._tripped.add(name)
        else:
            account.closed(now)
            self._tripped.discard(name)
        if VALVE in self._outputs:
            valve = self._outputs[VALVE]
            valve.count(now, len(self._days) - 1)
            valve.is_held_off = bool(self._tripped & CLOSE_VALVE)

    # buckets

    def _roll_measured(self, bucket: Bucket, now: float) -> None:
        if bucket.mean is None:
            return
        account = self._variable(bucket.variable)
        account.values += bucket.points
        self._count(account, now)
        until = min(bucket.end, bucket.last_at + self._holds_s(bucket.variable))
        account.begin(bucket.mean, until, bucket.low, bucket.high)

    def _roll_commanded(self, bucket: Bucket, now: float) -> None:
        """The command in a bucket is known if it is the same as before, all the time."""
        if not VARIABLES[bucket.variable].is_output:
            return
        account = self._output(bucket.variable)
        account.count(now, len(self._days) - 1)
        account.forget_starts()
        before = account.level_at(now)
        if before is not None and before == bucket.low == bucket.high == bucket.last:
            account.begin(before, bucket.end)
        else:
            account.end()

    # time

    def _pass_midnights(self, now: float) -> None:
        while self._midnight <= now and self._midnight < self.end:
            self._count_all(self._midnight)
            self._days.append(self._midnight)
            self._midnight = _next_midnight(self._midnight, self._zone)

    def _count_all(self, now: float) -> None:
        for variable in self._variables.values():
            self._count(variable, now)
        for output in self._outputs.values():
            output.count(now, len(self._days) - 1)
        since = max(self._light_since, self._start)
        if self._is_light is not None and now > since:
            self._light_s[self._is_light] += now - since
        self._light_since = max(now, self._start)

    def _count(self, account: VariableAccount, now: float) -> None:
        account.count(now, len(self._days) - 1, is_light=self._is_light)

    def _restart(self, now: float) -> None:
        """Growd starts: from its last sign on nothing is known, if it did not stop before."""
        if self._stopped is not None:
            self._add_gap(self._stopped, now, clean=True)
            self._stopped = None
        elif self._seen is not None:
            seen = max(self._seen, self._start)
            self._pass_midnights(seen)
            self._end_all(seen)
            self._add_gap(seen, now, clean=False)
        left, self._left = self._left, []
        for point in left:
            self._set(point, now)

    def _end_all(self, now: float) -> None:
        """Values, set points and commands are not known from now on. Set points by hand outlast a restart."""
        self._count_all(now)
        for variable in self._variables.values():
            variable.end()
            variable.set_point = None
        for output in self._outputs.values():
            output.end()
            output.is_held_off = False
        for kind, source in list(self._events):
            if kind == "interlock":
                self._events[kind, source].closed(now)
        self._tripped.clear()
        self._left = [point for point in self._set_points.values() if point.is_manual]
        self._set_points.clear()
        self._planned.clear()
        self._is_light = None

    def _add_gap(self, begin: float, end: float, *, clean: bool) -> None:
        begin = max(begin, self._start)
        if end > begin and len(self._gaps) < MOST_GAPS:
            self._gaps.append(Gap(begin, end, clean))

    # accounts

    def _variable(self, name: str) -> VariableAccount:
        if name not in self._variables:
            self._variables[name] = VariableAccount(name, self._start)
        return self._variables[name]

    def _output(self, name: str) -> OutputAccount:
        if name not in self._outputs:
            self._outputs[name] = OutputAccount(name, self._start)
            self._outputs[name].is_held_off = name == VALVE and bool(self._tripped & CLOSE_VALVE)
        return self._outputs[name]

    def _light_integral(self, days: int) -> LightIntegral | None:
        """From the one of PPFD and illuminance that has more data; of a whole day as growd told it."""
        present = [self._variables[name] for name in (PPFD, ILLUMINANCE) if name in self._variables]
        best = max(present, key=lambda one: one.whole.seconds, default=None)
        if best is None or not best.whole.seconds:
            return None
        factor = LUX_PER_PPFD if best.variable == ILLUMINANCE else None
        per_day = [
            short(best.days[day].total / (factor or 1.0) / 1e6) if best.days[day].seconds else None
            for day in range(days)
        ]
        sums = self._variables.get(DAILY_LIGHT_INTEGRAL)
        if sums is not None and factor is None:
            per_day = [sums.day_ends.get(day, light) if day else light for day, light in enumerate(per_day)]
        total = short(sum(light or 0.0 for light in per_day))
        return LightIntegral(best.variable, total, per_day, factor, LUX_UNCERTAINTY if factor else None)


def _next_midnight(now: float, zone: tzinfo | None) -> float:
    """The next local midnight after a UNIX time."""
    day = datetime.fromtimestamp(now, zone).date() + timedelta(days=1)
    return datetime.combine(day, time(), zone).timestamp()
