"""Limits of single outputs: their times, starts and volumes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.control.interlocks.base import SAVED_SHARE, STATE_LOST, Interlock, PersistentInterlock
from growd.control.interlocks.on_times import HOUR_S, RollingDose
from growd.runtime.sentence import Sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.control.interlocks.on_times import OnTimes

RELEASE_SHARE: Final = 0.9
"""Share of a limit: below it the output may be on again, so that it does not chatter at the limit."""
DAY_S: Final = 86_400.0
UNSAVED_SHARE: Final = 3 * SAVED_SHARE
"""Share of a limit that is not on the disk. A kill would forget it, so the outputs wait until it is saved."""

_LATE_S: Final = 1e-3  # so that the limit is reached then, in spite of rounding
_UNSAVED: Final = "growd ended without saving how long"
_EARLIER: Final = "it was not known for sure before the last start"


PUMP_ON_S: Final = 900.0
"""Longest time for which filling, a drain or irrigation may run: a stuck level sensor floods 30 l."""
PUMP_REST_S: Final = 900.0


class Words(msgspec.Struct, frozen=True):
    """An output, such as "the valve", and what it is when it works and when not."""

    subject: str
    on: str = "on"
    off: str = "off"
    advice: str = "switch off its power"
    """What to do about an output that may be on."""


class OnTooLong(PersistentInterlock):
    """An output was on for too long without a pause: it is off for a rest.

    If growd ends in a rest, or after a tenth of the longest time, the rest begins or goes on at the start.
    """

    def __init__(
        self,
        name: str,
        holds: Iterable[str],
        times: OnTimes,
        *,
        longest_s: float,
        rest_s: float,
        words: Words,
    ) -> None:
        super().__init__(name, holds, {"limit": (longest_s, "s"), "rest": (rest_s, "s")})
        self._times = times
        self._longest = longest_s
        self._rest = rest_s
        self._words = words
        self._trip = ""  # what happened, "" before a trip
        self._off_since = -math.inf  # before this run
        self._is_used = False

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        if not self._is_restored:
            return
        stretch = self._times.stretch(now)
        if stretch >= self._longest:
            was_on = was_on_words(self._words, self._times, now, self._longest)
            subject, longest = self._words.subject, self._longest
            self._trip = f"{subject} {was_on} for {longest:g} s without a pause, which is the limit"
            self.is_quiet = False
        elif self._rested(now) >= self._rest:
            self._trip = ""
        self._is_used = bool(self._trip) or stretch >= SAVED_SHARE * self._longest
        self.reason = ""
        if self._trip:
            text = f"{self._trip}; {self._outlook(now)}"
            self.reason = Sentence(text, "rests", limit=self._longest, rest=self._rest, unit="s")

    def _mark(self, *, as_reset: bool = False) -> Any:  # noqa: ARG002  releases by itself
        return self._is_used

    def _state(self, now: float, *, as_reset: bool) -> Any:  # noqa: ARG002  releases by itself
        return [self._rested(now) if self._trip else 0.0] if self._is_used else []

    def _rested(self, now: float) -> float:
        return min(self._times.rest(now), now - self._off_since)

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:
        for rested in saved:  # one or none
            if not 0 <= float(rested) < math.inf:
                raise ValueError("the rest is out of range")
            self._begin_rest(now - away - float(rested) if was_clean else now)

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._begin_rest(now)

    def _begin_rest(self, off_since: float) -> None:
        words = self._words
        self._off_since = off_since
        self._trip = f"{words.subject} may have been {words.on} for long, or rested, when growd ended"
        self.is_quiet = True

    def _outlook(self, now: float) -> str:
        words, rest = self._words, f"{self._words.off} for {self._rest:g} s"
        if self._times.doubt(now) > 0:
            return f"it stays {rest}"
        return f"it may be {words.on} until its output works: {words.advice}; it is then {rest}"


def was_on_words(words: Words, times: OnTimes, now: float, within_s: float) -> str:
    """An output that refuses writes may be on or off."""
    if times.doubt(now) < within_s:
        return f"may have been {words.on} (its output failed)"
    return f"was {words.on}"


class Use(msgspec.Struct, frozen=True):
    """What a limit counts: the total since the start, and how to say an amount of it."""

    total: Callable[[float], float]
    said: Callable[[float], str]
    unit: str = "s"


class UseLimit(PersistentInterlock):
    """Outputs were used too much in the last hour, or within another window.

    After an unclean end, what was used since the last save counts as used. A `limit` of infinity is none.
    """

    def __init__(
        self,
        name: str,
        holds: Iterable[str],
        times: OnTimes,
        *,
        use: Use,
        limit: float,
        words: Words,
        window_s: float = HOUR_S,
    ) -> None:
        super().__init__(name, holds, {"limit": (limit, use.unit)})
        self._times = times
        self._use = use
        self._limit = limit
        self._words = words
        self._window = window_s
        self._span = "hour" if window_s <= HOUR_S else f"{window_s / HOUR_S:g} hours"
        self._dose = RollingDose(window_s)
        self._counted = use.total(0.0)
        self._given = 0.0
        self._assumed = ""
        self._is_unsaved = False
        self._uncertain_at = -math.inf  # monotonic, when a part was assumed
        self._uncertain_why = _UNSAVED

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._count(now)
        if not self._is_restored or self._is_unlimited:
            return
        used = self._dose.amount(now)
        unsaved = self._given - self._saved
        if unsaved >= UNSAVED_SHARE * self._limit:
            self._is_unsaved, self.reason = True, f"{self._use.said(unsaved)} can't be saved: see the disk"
        elif self._is_unsaved:
            self._is_unsaved, self.reason = False, ""
        if self._is_unsaved:
            return
        if used >= self._limit and not self.reason:
            self.reason = self._assumed or self._why(used, now)
        elif used < RELEASE_SHARE * self._limit:
            self.reason = self._assumed = ""

    def due_s(self, now: float) -> float:
        if self.reason or self._is_unlimited or not self._times.is_on:
            return math.inf
        rate = self._use.total(now + 1.0) - self._use.total(now)
        if rate <= 0:
            return math.inf
        return (self._limit - self._dose.amount(now)) / rate + _LATE_S

    def needs_saving(self) -> bool:
        return bool(self._given - self._saved >= SAVED_SHARE * self._limit)

    def _mark(self, *, as_reset: bool = False) -> Any:  # noqa: ARG002  releases by itself
        return self._given

    def _state(self, now: float, *, as_reset: bool) -> Any:  # noqa: ARG002  releases by itself
        age = min(now - self._uncertain_at, self._times.doubt(now))
        doubt = [[age, 0.0]] if age < self._window else []  # an amount of 0 marks an uncertain one
        return [*self._dose.state(now), *doubt]

    @property
    def _is_unlimited(self) -> bool:
        return math.isinf(self._limit)

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:
        self._dose.restore((each for each in saved if each[1:] != [0.0]), now, away)
        ages = [float(age) for age, amount in saved if amount == 0]
        if not was_clean:
            self._dose.add(SAVED_SHARE * self._limit, now)
            self._uncertain_at = now
        elif ages:
            self._uncertain_at, self._uncertain_why = now - away - min(ages), _EARLIER

    def _assume_worst(self, now: float, why: str) -> None:
        self._dose.add(self._limit, now)
        words, after = self._words, "an hour" if self._window <= HOUR_S else self._span
        text = (
            f"how long {words.subject} was {words.on} in the last {self._span} is unknown ({why}), so the "
            f"limit counts as used up; {words.subject} can be {words.on} again {after} after the start"
        )
        self._assumed = Sentence(text, STATE_LOST, reason=why)

    def _why(self, used: float, now: float) -> str:
        said, limit = self._use.said, self._limit
        worked = f"{self._was_on(now)} for {said(used)} of"
        if self._use.unit != "s":  # a volume, or starts
            worked = f"had {said(used)} in"
        text = (
            f"{self._words.subject} {worked} the last {self._span} at the "
            f"trip; the limit is {said(limit)}; releases below {said(RELEASE_SHARE * limit)}"
        )
        return Sentence(text, "used_up", value=used, limit=limit, unit=self._use.unit)

    def _was_on(self, now: float) -> str:
        if now - self._uncertain_at < self._window:
            return f"may have been {self._words.on} ({self._uncertain_why})"
        return was_on_words(self._words, self._times, now, self._window)

    def _count(self, now: float) -> None:
        total = self._use.total(now)
        if total == self._counted:
            return
        self._dose.add(total - self._counted, now)
        self._given += total - self._counted
        self._counted = total


class MinimumOn(Interlock):
    """An output that was switched on stays on for a time, whoever commands it off."""

    is_routine = True

    def __init__(self, name: str, holds: Iterable[str], times: OnTimes, minimum_s: float) -> None:
        super().__init__(name, holds, {"limit": (minimum_s, "s")})
        self._times = times
        self._minimum = minimum_s
        self._words = f"it stays on for at least {minimum_s:g} s"

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        is_short = self._times.was_on and self._times.stretch(now) < self._minimum
        self.reason = self._words if is_short else ""

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        return level if level > 0 else self._times.level()


class MinimumOff(PersistentInterlock):
    """An output that was switched off stays off for a time, also over a restart.

    After an unclean end, and before the first use, it counts as switched off at the start.
    """

    is_routine = True

    def __init__(self, name: str, holds: Iterable[str], times: OnTimes, minimum_s: float) -> None:
        super().__init__(name, holds, {"limit": (minimum_s, "s")})
        self._times = times
        self._minimum = minimum_s
        self._words = f"it stays off for at least {minimum_s:g} s"
        self._off_since: float | None = None

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        if self._is_restored:
            self.reason = self._words if self._rest(now) < self._minimum else ""

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        return level if self._times.was_on else 0.0

    def _state(self, now: float, *, as_reset: bool) -> Any:  # noqa: ARG002  releases by itself
        return self._rest(now)

    def _rest(self, now: float) -> float:
        """Seconds for which it has been off."""
        if self._off_since is None:
            self._off_since = now
        return min(self._times.rest(now), now - self._off_since)

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:
        rest = float(saved)
        if not 0 <= rest < math.inf:
            raise ValueError("the rest is out of range")
        self._off_since = now - away - rest if was_clean else now

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._off_since = now
