"""How long outputs were on: without a pause, and in the last hour. Pure: times are passed in."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

HOUR_S: Final = 3600.0
BIN_S: Final = 60.0


class OnTimes:
    """How long the outputs of one kind were on, from what was really written to them.

    An output whose last write failed counts as on. All times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # outputs that are on, or may be
        self._levels: dict[str, float] = {}  # of these outputs; full if it is uncertain
        self._uncertain: set[str] = set()
        self._were_on: set[str] = set()  # at their last write without an error
        self._was_written = False
        self._total = 0.0
        self._full_total = 0.0
        self._certain_total = 0.0
        self.guesses = 0
        """How often a device that measures its time on did not know it, as after a new keeper of pins."""
        self._measured: set[str] = set()
        self._began: float | None = None
        self._ended = -math.inf
        self._doubted = -math.inf

    def wrote(
        self,
        output: str,
        level: float | None,
        now: float,
        lasted_s: float = 0.0,
        was_on_s: float | None = None,
    ) -> None:
        """An output has this level from now on, None if the write failed.

        One that is switched on was so since the begin of the write, `lasted_s` ago. `was_on_s` is for how
        long it really was on since the write before, None if that is not known.
        """
        self._was_written = True
        if was_on_s is not None:
            self._measured.add(output)
        elif output in self._since and output in self._measured:
            self.guesses += 1
        self._add_time(output, now, was_on_s)
        if level is not None and level <= 0:
            self._since.pop(output, None)
        else:
            is_start = output not in self._since
            self._since[output] = now - lasted_s if is_start else now
            self._levels[output] = 1.0 if level is None else level
        self._uncertain.discard(output)
        if level is None:
            self._uncertain.add(output)
        elif level > 0:
            self._were_on.add(output)
        else:
            self._were_on.discard(output)
        self._note_stretch(now)

    @property
    def is_on(self) -> bool:
        """Whether an output is on, or may be."""
        return bool(self._since)

    @property
    def was_on(self) -> bool:
        """Whether an output was on at its last write without an error."""
        return bool(self._were_on)

    def stretch(self, now: float) -> float:
        """Seconds for which at least one output has been on without a pause."""
        return 0.0 if self._began is None else now - self._began

    def rest(self, now: float) -> float:
        """Seconds for which all outputs have been off."""
        return 0.0 if self.is_on else now - self._ended

    def doubt(self, now: float) -> float:
        """Seconds since it was last uncertain whether an output is on; 0 while it is."""
        return 0.0 if self._uncertain else now - self._doubted

    def total(self, now: float) -> float:
        """Seconds of all outputs together since the start."""
        if not self._since:  # the usual case: a valve is shut
            return self._total
        return self._total + sum(now - since for since in self._since.values())

    def certain_total(self, now: float) -> float:
        """As `total`, without uncertain times."""
        if not self._since:
            return self._certain_total
        known = (now - since for output, since in self._since.items() if output not in self._uncertain)
        return self._certain_total + sum(known)

    def full_total(self, now: float) -> float:
        """Seconds at full level with the same effect as all levels since the start."""
        if not self._since:
            return self._full_total
        running = (self._levels[output] * (now - since) for output, since in self._since.items())
        return self._full_total + sum(running)

    def level(self) -> float:
        """The highest level of an output now."""
        if not self._since:
            return 0.0
        return max(self._levels[output] for output in self._since)

    @property
    def is_certain(self) -> bool:
        """Whether each output was written, without an error the last time."""
        return self._was_written and not self._uncertain

    def _add_time(self, output: str, now: float, was_on_s: float | None) -> None:
        lasted = now - self._since.get(output, now)
        if was_on_s is not None and output not in self._uncertain:
            lasted = was_on_s
        self._total += lasted
        self._full_total += lasted * self._levels.get(output, 0.0)
        if output in self._uncertain:
            self._doubted = now
        else:
            self._certain_total += lasted

    def _note_stretch(self, now: float) -> None:
        if self._since and self._began is None:
            self._began = min(self._since.values())
        elif not self._since and self._began is not None:
            self._began, self._ended = None, now


class RollingDose:
    """The amount given in the last hour: never too little, and too much by a minute's amount at most.

    Amounts are added up in bins of a minute, so memory is bounded however small the doses are. A longer
    `window_s` has longer bins.
    """

    def __init__(self, window_s: float = HOUR_S) -> None:
        self._window = window_s
        self._bin = BIN_S * window_s / HOUR_S
        self._bins: deque[list[float]] = deque()  # start of each bin, and the amount in it

    def add(self, amount: float, now: float) -> None:
        """Add an amount. `now` must not be before the last call's.

        An amount below 0 takes back what was added before the real amount was known.
        """
        if amount <= 0:
            self._take_back(-amount)
            return
        begin = math.floor(now / self._bin) * self._bin
        if not self._bins or self._bins[-1][0] < begin:
            self._bins.append([begin, 0.0])
        self._bins[-1][1] += amount
        self._forget(now)

    def amount(self, now: float) -> float:
        """The amount in the window that ends now."""
        self._forget(now)
        return math.fsum(amount for _, amount in self._bins)

    def since(self, now: float) -> float:
        """Seconds, at least, since the last amount; infinity if there was none in the window."""
        self._forget(now)
        return max(0.0, now - self._bins[-1][0] - self._bin) if self._bins else math.inf

    def state(self, now: float) -> list[list[float]]:
        """The state to save: the age of each bin in seconds, and the amount in it."""
        self._forget(now)
        return [[now - begin, amount] for begin, amount in self._bins]

    def restore(self, saved: Iterable[Iterable[float]], now: float, away: float = 0.0) -> None:
        """Continue from the state saved `away` seconds ago. Raises ValueError or TypeError."""
        restored = [[now - float(age) - away, float(amount)] for age, amount in saved]
        if not all(
            math.isfinite(number) and amount >= 0 for begin, amount in restored for number in (begin, amount)
        ):
            raise ValueError("the dose is not a number")
        self._bins = deque(sorted([*restored, *self._bins]))
        self._forget(now)

    def _take_back(self, amount: float) -> None:
        for each in reversed(self._bins):
            taken = min(amount, each[1])
            each[1] -= taken
            amount -= taken

    def _forget(self, now: float) -> None:
        while self._bins and self._bins[0][0] + self._bin < now - self._window:
            self._bins.popleft()
