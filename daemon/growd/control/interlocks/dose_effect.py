"""Doses whose effect does not fit their volume: an empty bottle, or a probe that does not tell the truth."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from growd.control.interlocks.base import LatchedInterlock
from growd.control.interlocks.limits import DAY_S
from growd.runtime.sentence import Sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.control.interlocks.base import SensorReadings
    from growd.control.interlocks.on_times import OnTimes
    from growd.control.pumps import Volumes

SMOOTHED: Final = 5  # readings in a median, against noise and spikes
FORGET_S: Final = 21_600.0  # older doses do not count for a trip
LEAST_DOSES: Final = 3
LEAST_SEEN: Final = 5.0  # times the smallest change that can be seen, before doses of a day are judged
_MOST_DOSES: Final = 300
_MOST_TIMES: Final = 3.0


class Answer(msgspec.Struct, frozen=True):
    """What a dose must do to `variable`: move it by its volume over `ml_per_unit(now)`, up or down.

    If that is 0, its effect is not known, and must only be visible. Less than `visible` cannot be seen. Below
    `least` of the expected effect a dose had none. Over a day the share is within `fits`, of doses within
    `near` of the set point, where `ml_per_unit` is known best.
    """

    variable: str
    unit: str
    raises: bool
    ml_per_unit: Callable[[float], float]
    visible: float
    least: float
    fits: tuple[float, float]
    near: float


class _Judged(NamedTuple):
    """A dose: when it was judged, the effect that its volume predicts, what was measured, how near it was."""

    at: float
    expected: float
    measured: float
    is_near: bool

    def within(self, least: float, most: float) -> float:
        """What was measured, within these multiples of the expected effect: one jump is not several doses."""
        return max(least * self.expected, min(most * self.expected, self.measured))


class DoseEffect(LatchedInterlock):
    """Dosing pumps are off until a reset after `doses` doses with far less effect than expected.

    A dose is judged when its pumps were off for `settle_s`: the reading then, and the one before it, unless
    `others` moved the variable as well. A dose whose expected effect is too small to be seen counts as that
    part of a dose. If the doses of a day have another effect than their volume says, that is a `problem`.
    """

    def __init__(
        self,
        holds: Iterable[str],
        times: OnTimes,
        volumes: Volumes,
        readings: SensorReadings,
        answer: Answer,
        *,
        others: OnTimes,
        doses: int,
        settle_s: float,
    ) -> None:
        way = "rise" if answer.raises else "fall"
        limits = {"limit": (float(doses), "doses"), way: (answer.visible, answer.unit)}
        super().__init__(f"{answer.variable}_no_{way}", holds, limits)
        self.reads = self.follows = frozenset({answer.variable})
        self.reset_hint = Sentence("check the dosing pump and the sensor, then reset it", "check_pump")
        self._times = times
        self._others = others
        self._volumes = volumes
        self._readings = readings
        self._answer = answer
        self._way = way
        self._doses = float(doses)
        self._settle = settle_s
        self._recent: deque[float] = deque(maxlen=SMOOTHED)
        self._set_point: float | None = None
        self._before: tuple[float, float, float] | None = None  # value, volume, others, before this dose
        self._is_open = False
        self._volume = 0.0  # at the last moment without a dose
        self._judged: deque[_Judged] = deque(maxlen=_MOST_DOSES)
        self._problem = ""

    def on_set_point(self, variable: str, value: float | None) -> None:  # noqa: ARG002  it follows one
        self._set_point = value

    def on_reading(self, variable: str, device: str, value: float | None, now: float) -> None:  # noqa: ARG002
        if value is not None and not device:
            self._recent.append(value)

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        if not self._is_restored:
            return
        total = self._volumes.total(now)
        if self._times.is_on and not self._is_open:
            self._is_open = True
            self._before = self._begin(now)
        elif self._is_open and self._times.rest(now) >= self._settle:
            self._is_open = False
            self._judge(now, total)
        if not self._is_open:
            self._volume = total

    @property
    def problem(self) -> str:
        return self._problem

    def reset(self) -> None:
        self.reason = self._problem = ""
        self._judged.clear()

    def _why_it_must_hold(self, now: float) -> str:
        return self._readings.unseen(self._answer.variable, self._way, now)

    def _mark(self, *, as_reset: bool = False) -> Any:
        return super()._mark(as_reset=as_reset), bool(self._problem) and not as_reset

    def _state(self, now: float, *, as_reset: bool) -> Any:
        judged = [] if as_reset else [[now - at, *rest] for at, *rest in self._judged]
        return [super()._mark(as_reset=as_reset), judged]

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        reason, judged = saved
        self._restore_reason(reason)
        self._judged.extend(
            _Judged(now - away - float(age), float(expected), float(measured), bool(is_near))
            for age, expected, measured, is_near in judged
        )
        self._problem = self._misfit(now)

    def _begin(self, now: float) -> tuple[float, float, float] | None:
        """The value and the volumes before a dose; None while the value is not known."""
        value = self._value(now)
        return None if value is None else (value, self._volume, self._others.total(now))

    def _value(self, now: float) -> float | None:
        is_known = self._readings.combined(self._answer.variable, now) is not None
        return median(self._recent) if is_known and self._recent else None

    def _judge(self, now: float, total: float) -> None:
        """Compare a dose with its effect."""
        value, answer = self._value(now), self._answer
        if value is None or self._before is None or self._others.total(now) > self._before[2]:
            return
        before, volume, _ = self._before
        ml_per_unit = answer.ml_per_unit(now)
        expected = (total - volume) / ml_per_unit if ml_per_unit else answer.visible
        measured = value - before if answer.raises else before - value
        is_near = self._set_point is not None and abs(before - self._set_point) <= answer.near
        self._judged.append(_Judged(now, expected, measured, is_near))
        if not self.reason:
            self.reason = self._none(now)
        self._problem = self._misfit(now)

    def _none(self, now: float) -> str:
        """Why the last doses had no effect, "" if they had one or are too few."""
        count = expected = measured = 0.0
        for each in reversed(self._judged):
            if count >= self._doses or now - each.at > FORGET_S:
                break
            count += min(1.0, each.expected / self._answer.visible)
            expected += each.expected
            measured += each.within(0.0, 1.0)
        if count < self._doses or measured >= self._answer.least * expected:
            return ""
        return (
            f"the dosing pump gave doses for a {self._way} of {self._answer.variable} by "
            f"{expected:.2g} {self._answer.unit}, and it was {measured:.2g}: its bottle may be empty, the "
            "probe out of the water or not in order, or ml_per_unit_litre far from what the water takes"
        )

    def _misfit(self, now: float) -> str:
        """What does not fit in the doses of a day, "" if they fit or are too few."""
        of_day = [each for each in self._judged if each.is_near and now - each.at <= DAY_S]
        expected, answer = sum(each.expected for each in of_day), self._answer
        if len(of_day) < LEAST_DOSES or expected < LEAST_SEEN * answer.visible:
            return ""
        share = sum(each.within(-_MOST_TIMES, _MOST_TIMES) for each in of_day) / expected
        if answer.fits[0] <= share <= answer.fits[1]:
            return ""
        text = (
            f"the doses of a day moved {answer.variable} by {share:.2g} of what their volume predicts: check "
            f"the probe with a buffer, then the flow of the pump; if both are right, set ml_per_unit_litre"
        )
        return Sentence(text, "doses_differ", variable=answer.variable)
