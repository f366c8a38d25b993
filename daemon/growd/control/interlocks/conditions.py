"""Outputs that are held while a variable is beyond a limit: conditions, and guards of pumps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from growd.control.interlocks.base import QUIET_S, Interlock
from growd.runtime.sentence import Sentence, reworded
from growd.runtime.text import told_apart
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from growd.control.interlocks.on_times import OnTimes


class Threshold(msgspec.Struct, frozen=True):
    """`variable` at or above `above`, or at or below `below`; back beyond `hysteresis`.

    `read` returns its value at a time, None if it is not known.
    """

    variable: str
    read: Callable[[float], float | None]
    above: float = math.inf
    below: float = -math.inf
    hysteresis: float = 0.0
    unit: str = ""

    def is_beyond(self, value: float, *, was_beyond: bool) -> bool:
        """Whether the value is beyond the limit, or not yet back by the hysteresis."""
        back = self.hysteresis if was_beyond else 0.0
        if was_beyond and back:
            return value > self.above - back or value < self.below + back
        return value >= self.above or value <= self.below

    def said(self, value: float) -> str:
        """Why it holds, with the value."""
        if self.unit == "switch":
            code = "is_on" if value > 0 else "is_off"
            return Sentence(f"{self.variable} is {code.removeprefix('is_')}", code, variable=self.variable)
        side, limit = ("above", self.above) if value >= self.above else ("below", self.below)
        known = VARIABLES.get(self.variable)
        shown, told = told_apart(value, limit, 2 if known is None else known.precision)
        text = f"{self.variable} was {shown} {self.unit} at the trip; the limit is {side} {told}"
        fields = {"value": value, "limit": limit, "unit": self.unit}
        return Sentence(text, f"was_{side}", variable=self.variable, **fields)


def is_on(variable: str, read: Callable[[float], float | None], *, on: bool = True) -> Threshold:
    """The limit of a variable that is on, or off."""
    if on:
        return Threshold(variable, read, above=0.5, unit="switch")
    return Threshold(variable, read, below=0.5, unit="switch")


def state_of(times: OnTimes) -> Callable[[float], float | None]:
    """How a condition reads the own variable of outputs: 1 while one is on, None if that is uncertain."""
    return lambda _: float(times.is_on) if times.is_certain else None


def level_of(times: OnTimes) -> Callable[[float], float | None]:
    """The highest written level, None if it is uncertain."""
    return lambda _: times.level() if times.is_certain else None


class WhileBeyond(Interlock):
    """Outputs are held at a level (None: their safe one) while one of `limits` applies for `after_s`.

    A variable that is not known holds them too if `holds_unknown`, quietly in the first `QUIET_S`. One that
    `follows_output` has no events, which would be as many as those of the output. `failure` says what may
    have failed, and what to do, if growd cannot end it.
    """

    def __init__(
        self,
        name: str,
        holds: Iterable[str],
        limits: Sequence[Threshold],
        *,
        level: float | None = 0.0,
        after_s: float = 0.0,
        holds_unknown: bool = True,
        devices: Iterable[str] = (),
        is_expected: bool = False,
        follows_output: bool = False,
        failure: str = "",
    ) -> None:
        super().__init__(name, holds, _shown(limits, after_s))
        self.reads = frozenset(each.variable for each in limits)
        self.devices = frozenset(devices)
        self.is_expected = is_expected
        self._conditions = tuple(limits)
        self._failure = failure
        self._level = level
        self._after = after_s
        self._holds_unknown = holds_unknown
        self._since: dict[Threshold, float] = {}
        self._said: dict[Threshold, str] = {}
        self._began: float | None = None
        self._measured: set[str] = set()
        self._follows_output = follows_output

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._began = now if self._began is None else self._began
        unknown = []
        for each in self._conditions:
            value = each.read(now)
            if value is None:
                unknown.append(each.variable)
            else:
                self._measured.add(each.variable)
                self._judge(each, value, now)
        applying = next(iter(self._said.values()), "")
        is_unknown = bool(unknown) and self._holds_unknown and not applying
        is_new = is_unknown and unknown[0] not in self._measured
        is_early = is_new and now - self._began < QUIET_S and (self.is_quiet or not self.reason)
        if is_unknown:
            words = "has not been measured yet" if is_early else "is unknown"
            code = "not_measured_yet" if is_early else "variable_unknown"
            applying = Sentence(f"{unknown[0]} {words}", code, variable=unknown[0])
        self.is_quiet = is_early or self._follows_output
        has_both = applying and self._failure
        self.reason = reworded(f"{applying}; {self._failure}", applying) if has_both else applying

    @property
    def is_failure(self) -> bool:
        return bool(self.reason and self._failure)

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        return safe if self._level is None else self._level

    def _judge(self, limit: Threshold, value: float, now: float) -> None:
        """Note whether a limit applies."""
        if not limit.is_beyond(value, was_beyond=limit in self._said):
            self._since.pop(limit, None)
            self._said.pop(limit, None)
        elif now - self._since.setdefault(limit, now) >= self._after:
            self._said.setdefault(limit, limit.said(value))


def _shown(limits: Sequence[Threshold], after_s: float) -> dict[str, tuple[float, str]]:
    """The limits for display, by the names of their options."""
    shown = {}
    for each in limits:
        if each.unit != "switch":
            side = ("above", each.above) if math.isfinite(each.above) else ("below", each.below)
            shown[side[0]] = (side[1], each.unit)
            if each.hysteresis:
                shown["hysteresis"] = (each.hysteresis, each.unit)
    return shown | ({"after": (after_s, "s")} if after_s else {})
