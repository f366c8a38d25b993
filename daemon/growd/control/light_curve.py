"""The light of a lamp at each level, and the level for a light. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import InvalidValueError
from growd.bus.fields import Field, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_POINTS: Final = 64
STEPS: Final = 64  # of a calculated curve: within 0.5 % from 1 % of full light on
DIMMEST: Final = 0.001  # the level of a lamp at its minimum duty
_PAIR: Final = 2


class LightCurve:
    """Linear interpolation between points of level (0..1) and light (lux), which both rise from dark on.

    `least` is the light of the dimmest level above 0, as a share of full light, for LED drivers with a
    minimum duty. A lower light becomes dark or the dimmest level, whichever is nearer.
    """

    def __init__(self, points: Sequence[Sequence[float]], least: float = 0.0) -> None:
        self._least_lux = least * points[-1][1]
        lit = [(level, lux) for level, lux in points if level > 0 and lux > self._least_lux]
        self._levels = [0.0, *(level for level, _ in lit)]
        self._lux = [self._least_lux, *(lux for _, lux in lit)]

    @property
    def full_lux(self) -> float:
        """The light at level 1."""
        return self._lux[-1]

    def level(self, lux: float) -> float:
        """The level for this light, within the lamp's limits; 0 for 0 lux or less."""
        if lux <= self._least_lux / 2:
            return 0.0
        level = _interpolated(lux, self._lux, self._levels)
        return max(DIMMEST, level) if self._least_lux else level

    def lux(self, level: float) -> float:
        """The light at this level."""
        return _interpolated(level, self._levels, self._lux) if level > 0 else 0.0


@lru_cache(maxsize=16)
def power_curve(full_lux: float, gamma: float = 1.0, least: float = 0.0) -> LightCurve:
    """The curve of an LED whose light is proportional to `least + (1 - least) * level ** gamma`."""
    exponent = max(1.0, 1.0 / gamma)  # even steps of light where the curve is steep near 0
    levels = [(step / STEPS) ** exponent for step in range(1, STEPS + 1)]
    return LightCurve([(level, full_lux * (least + (1 - least) * level**gamma)) for level in levels], least)


class CurveField(Field):
    """A parameter for a curve: pairs [level, lux], or an empty list for the curve of gamma."""

    def __init__(self, name: str) -> None:
        super().__init__(name, Kind.JSON, default=[])

    def check(self, value: Any) -> Any:
        """Return `value`. Raises `InvalidValueError` if it is not a curve."""
        if not isinstance(value, list) or (value and problem_of(value)):
            raise InvalidValueError(self.name, self.expected(), value)
        return value

    def expected(self) -> str:
        """A description of valid values."""
        return (
            f"a list of at most {MOST_POINTS} pairs [level, lux] that both rise, the last with level 1, "
            f"or an empty list for the curve of gamma"
        )


def problem_of(points: Sequence[Any], least_rise: float = 0.0) -> str:
    """Why points are not a curve, or "". Light has to rise by more than `least_rise` lux."""
    if not points or len(points) > MOST_POINTS or not all(map(_is_pair, points)):
        return f"it is not a list of 1 to {MOST_POINTS} pairs of numbers from 0 on"
    if points[-1][0] != 1:
        return f"it ends at level {points[-1][0]:g}, not at 1"
    above = [point for point in points if point[0] > 0]
    for (lower, less), (higher, more) in pairwise([(0.0, 0.0), *above]):
        if higher <= lower:
            return f"level {higher:g} comes after {lower:g}"
        if more - less <= least_rise:
            return f"light does not rise: {less:g} lux at level {lower:g}, {more:g} lux at level {higher:g}"
    return ""


def _is_pair(point: Any) -> bool:
    is_pair = isinstance(point, (list, tuple)) and len(point) == _PAIR
    return is_pair and all(type(n) in (int, float) and 0 <= n < math.inf for n in point)


def _interpolated(x: float, xs: list[float], ys: list[float]) -> float:
    if x >= xs[-1]:
        return ys[-1]
    upper = max(1, bisect_left(xs, x))
    share = (max(x, xs[0]) - xs[upper - 1]) / (xs[upper] - xs[upper - 1])
    return ys[upper - 1] + share * (ys[upper] - ys[upper - 1])
