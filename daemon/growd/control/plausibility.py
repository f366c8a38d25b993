"""Whether a reading can be a measurement: one judge for the sensors of all kinds.

The kinds declare facts of their parts (`growd_drivers.kinds.SensorKind`). What is known of a variable,
whatever measures it, is here.
"""

from __future__ import annotations

import errno
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.variables import CARBON_DIOXIDE, ILLUMINANCE, VARIABLES
from growd_drivers.errors import DeviceMissingError, NotReadyError, OutOfRangeError, StuckError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from growd_drivers.kinds import SensorKind

AT_END_S: Final = 60.0
"""A value that stays exactly at the end of a usual range for this long is no measurement."""

SILENCE_S: Final = 10.0
"""A part that did not answer for this long may have been without power."""

CONSTANT_S: Final = 180.0
"""The longest warm-up of the known CO2 sensors, for those of which nothing is known."""

JUMP_S: Final = 20.0  # the allowed jump grows for samples further apart than this

_USUAL_ENDS: Final = {
    CARBON_DIOXIDE: (2_000.0, 5_000.0, 10_000.0, 40_000.0),
    ILLUMINANCE: (54_612.5, 65_535.0),  # a BH1750 at its usual measurement time, and counts of 16 bits
}
"""Where common parts end, besides the ends of the variable itself."""


class Plausibility:
    """Judges the readings of one device by the facts of its kind and of its variables.

    - A value at the end of its range, or beyond it, is a fault; at the end of a range that other parts or
      settings have, after `AT_END_S`.
    - A value that does not change is a fault after `stuck_after_s`, by default the `same_for_s` of the kind.
    - After power-on there is no reading for `warm_up_s`, nor while a constant comes. `on_restart` is called
      when the part was switched on: it was silent for `SILENCE_S` or unplugged, or its value jumps onto a
      constant, or anywhere after a missed answer, and stays exactly the same.

    `fields` are the variables by the names of the sample's fields. `range_end` replaces the upper end of the
    range, and `ends` are those of the scale that the configuration gives.
    """

    def __init__(
        self,
        kind: SensorKind,
        fields: Mapping[str, str],
        *,
        range_end: float | None = None,
        ends: Iterable[float] = (),
        stuck_after_s: float | None = None,
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        self._power = _Power(kind, next(iter(fields.values()), ""), on_restart)
        self._ends = _Ends(kind, fields, range_end, ends)
        self._course = _Course(kind, kind.same_for_s if stuck_after_s is None else stuck_after_s)

    def missed(self, now: float, error: Exception | None = None) -> None:
        """Note that the device had no valid answer, for `error`; None is silence."""
        self._power.missed(now, error)

    def expect_jump(self) -> None:
        """Accept whatever comes next, as after a calibration."""
        self._power.trusted = None
        self._course.forget()

    def check(self, reading: Mapping[str, float], now: float) -> None:
        """Raise `NotReadyError` for what is no measurement yet, `OutOfRangeError` or `StuckError`."""
        first = next(iter(reading.values()))
        if fault := self._ends.lasting_fault(reading, now):
            self._power.missed(now, fault)
            raise fault
        fault = self._ends.fault(reading)
        self._power.check(first, now, is_measured=fault is None)
        if fault is not None:
            self._power.missed(now, fault)
            raise fault
        self._course.check(reading, now)
        self._power.trusted = first


class _Jump(NamedTuple):
    """A value that may be a constant: when it came, and whether an answer was missed before."""

    value: float
    at: float
    after_gap: bool


class _Power:
    """Whether the part has warmed up, by its first variable."""

    def __init__(self, kind: SensorKind, variable: str, on_restart: Callable[[], None]) -> None:
        self.trusted: float | None = None
        known = VARIABLES.get(variable)
        self._kind = kind
        self._on_restart = on_restart
        self._step = min(kind.most_jump, known.jump if known else inf)
        self._relative = known.relative_jump if known and kind.most_jump == inf else 0.0
        repeats = kind.same_for_s > 0
        self._is_watched = repeats and (variable == CARBON_DIOXIDE or kind.warm_up_s > 0)
        self._on_since: float | None = None
        self._is_warm = False
        self._silent_since: float | None = None
        self._has_missed = False
        self._jump: _Jump | None = None
        self._constant: float | None = None

    def missed(self, now: float, error: Exception | None) -> None:
        self._has_missed = True
        if error is not None and not isinstance(error, DeviceMissingError):
            return
        if self._silent_since is None:
            self._silent_since = now
        if isinstance(error, DeviceMissingError) and error.errno == errno.ENODEV:
            self._on_since = None  # the port is lost, and with USB the power

    def check(self, value: float, now: float, *, is_measured: bool) -> None:
        has_missed, silent_since = self._has_missed, self._silent_since
        self._has_missed, self._silent_since = False, None
        was_silent = silent_since is not None and now - silent_since >= SILENCE_S
        if self._on_since is None or (was_silent and self._kind.warm_up_s):
            self._begin(now)
        elif is_measured and self._may_be_constant(value, has_missed=has_missed):
            self._jump = _Jump(value, now, after_gap=has_missed)
        if self._jump is not None and is_measured:
            self._check_jump(value, now, self._jump)
        if not self._is_warm:
            self._check_warm(value, now)

    def _may_be_constant(self, value: float, *, has_missed: bool) -> bool:
        is_suspect = value in self._kind.warm_up_values or (has_missed and self._is_watched)
        return self._is_warm and self._jump is None and is_suspect and self._jumps(value, self.trusted)

    def _check_jump(self, value: float, now: float, jump: _Jump) -> None:
        """Believe a value that jumped when it moves as a measured one does."""
        is_listed, is_same = value in self._kind.warm_up_values, value == jump.value
        if now > jump.at and (is_listed or (is_same and self._kind.warm_up_s)):
            self._begin(jump.at)
            self._constant = value
            return
        if jump.after_gap and self._jumps(value, jump.value) and self._jumps(value, self.trusted):
            jump = self._jump = _Jump(value, now, after_gap=True)
        if now == jump.at or (is_same and now - jump.at < CONSTANT_S):
            raise self._not_ready(f"jumped to {value:g}, as after a loss of power")
        self._jump = None

    def _check_warm(self, value: float, now: float) -> None:
        is_on_long = self._on_since is not None and now - self._on_since >= self._kind.warm_up_s
        if not is_on_long:
            raise self._not_ready("is warming up")
        if value in self._kind.warm_up_values or value == self._constant:
            raise self._not_ready(f"sends {value:g}, a constant of its warm-up")
        self._is_warm, self._constant = True, None

    def _begin(self, on_since: float) -> None:
        if self._on_since is not None:
            self._on_restart()
        self._on_since, self._is_warm, self._jump, self._constant = on_since, False, None, None

    def _jumps(self, value: float, other: float | None) -> bool:
        return other is not None and abs(value - other) > max(self._step, self._relative * abs(other))

    def _not_ready(self, reason: str) -> NotReadyError:
        return NotReadyError(f"{self._kind.part} {reason}", device=self._kind.part)


class _Ends:
    """The ends of what the part can measure, and those of other parts and settings."""

    def __init__(
        self, kind: SensorKind, fields: Mapping[str, str], range_end: float | None, ends: Iterable[float]
    ) -> None:
        self._kind = kind
        self._ranges = {fields[field]: limits for field, limits in kind.ranges.items() if field in fields}
        if range_end is not None:
            name = next(iter(fields.values()))
            self._ranges[name] = (self._ranges.get(name, (-inf, inf))[0], range_end)
        self._usual = {name: _usual_ends(name, tuple(ends)) for name in fields.values() if name in VARIABLES}
        self._since: dict[str, float] = {}

    def fault(self, reading: Mapping[str, float]) -> OutOfRangeError | None:
        """What is wrong with a value that the part does not measure."""
        for name, value in reading.items():
            least, most = self._ranges.get(name, (-inf, inf))
            allowed = VARIABLES[name].ends if name in VARIABLES else ""
            is_above = value > least or (value == least and "low" in allowed)
            is_below = value < most or (value == most and "high" in allowed)
            if not (is_above and is_below):
                where = "the end of its range" if value in (least, most) else "beyond its range"
                return self._error(name, value, f"{value:g}, {where}")
        return None

    def lasting_fault(self, reading: Mapping[str, float], now: float) -> OutOfRangeError | None:
        """What is wrong with a value that stays at a usual end, also during a warm-up."""
        for name, value in reading.items():
            if value not in self._usual.get(name, ()) or value in self._ranges.get(name, ()):
                self._since.pop(name, None)
            elif now - self._since.setdefault(name, now) >= AT_END_S:
                return self._error(name, value, f"exactly {value:g} for a minute, the end of its range")
        return None

    def _error(self, name: str, value: float, words: str) -> OutOfRangeError:
        hint = f": {self._kind.range_hint}" if self._kind.range_hint else ""
        part, (least, most) = self._kind.part, self._ranges.get(name, (-inf, inf))
        return OutOfRangeError(
            f"{part} measured {name} = {words}{hint}", device=part, value=value, minimum=least, maximum=most
        )


def _usual_ends(name: str, of_scale: tuple[float, ...]) -> frozenset[float]:
    """The values at which a variable cannot stay."""
    known, allowed = VARIABLES[name], VARIABLES[name].ends
    if known.unit == "switch":
        return frozenset()
    lower = {known.minimum, min(of_scale, default=known.minimum)} if "low" not in allowed else set()
    upper = {known.maximum, max(of_scale, default=known.maximum)} if "high" not in allowed else set()
    return frozenset({*lower, *upper, *_USUAL_ENDS.get(name, ())})


class _Course:
    """For how long the reading has been exactly the same."""

    def __init__(self, kind: SensorKind, limit_s: float) -> None:
        self._kind = kind
        self._limit_s = limit_s
        self._last: Mapping[str, float] | None = None
        self._since = 0.0

    def forget(self) -> None:
        self._last = None

    def check(self, reading: Mapping[str, float], now: float) -> None:
        part = self._kind.part
        if reading != self._last:
            self._last, self._since = reading, now
        elif not self._limit_s:
            raise NotReadyError(f"{part} repeated its last measurement as a new one", device=part)
        elif now - self._since >= self._limit_s and not all(
            map(_is_at_end, *zip(*reading.items(), strict=True))
        ):
            lasted_s, value = now - self._since, next(iter(reading.values()))
            sentence = f"{part} has given {value:g} for {lasted_s / 3600:.1f} h: it is frozen"
            raise StuckError(sentence, device=part, value=value, seconds=lasted_s)


def _is_at_end(name: str, value: float) -> bool:
    """Whether the variable is at an end where it may stay: the night, a dry probe."""
    known = VARIABLES.get(name)
    return known is not None and value in (known.minimum, known.maximum)


class Spikes:
    """Samples of a variable that jump, of which the next one has to confirm each."""

    def __init__(self, variable: str) -> None:
        self._variable = VARIABLES[variable]
        self._accepted: float | None = None
        self._suspect: tuple[float, float] | None = None  # a sample that jumped, and its arrival

    def accepts(self, value: float, now: float) -> bool:
        """Whether the sample is believed."""
        is_first = self._accepted is None
        if is_first or self._is_near(value, self._accepted) or self._is_confirmed(value, now):
            self._accepted, self._suspect = value, None
            return True
        self._suspect = (value, now)
        return False

    def _is_confirmed(self, value: float, now: float) -> bool:
        """Whether this sample agrees with the previous one, which jumped."""
        if self._suspect is None:
            return False
        suspect, came = self._suspect
        return self._is_near(value, suspect, max(1.0, (now - came) / JUMP_S))

    def _is_near(self, value: float, other: float | None, times: float = 1.0) -> bool:
        if other is None:
            return False
        known = self._variable
        return abs(value - other) <= times * max(known.jump, known.relative_jump * abs(other))
