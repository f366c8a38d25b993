"""Axes of plots: round values, and times at the edges of days."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from growd_analysis.reports.language import Language

_HOUR: Final = 3_600
_DAY: Final = 86_400
_STEPS: Final = (
    *(60, 120, 300, 600, 1_800),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 91 * _DAY, 364 * _DAY),
)
_MOST_TICKS: Final = 9


class Axis(NamedTuple):
    """From `low` to `high`, with labels at some values."""

    low: float
    high: float
    ticks: list[tuple[float, str]]


def value_axis(low: float, high: float, least: float, language: Language) -> Axis:
    """An axis of round values that covers a range, which counts as at least so wide."""
    more = max(0.06 * (high - low), (least - (high - low)) / 2)
    bottom = low - more if low < 0 else max(0.0, low - more)
    top = high + more
    rough = (top - bottom) / 4
    power = 10.0 ** floor(log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
    decimals = max(0, -floor(log10(step)))
    numbers = range(ceil(bottom / step), floor(top / step) + 1)
    return Axis(bottom, top, [(n * step, language.number(n * step, decimals)) for n in numbers])


def clock_axis(start: float, end: float, language: Language) -> Axis:
    """An axis of UNIX times, with labels at round local times."""
    step = _step(end - start)
    midnight = datetime.combine(datetime.fromtimestamp(start, language.zone).date(), time(), language.zone)
    ticks: list[tuple[float, str]] = []
    for n in range(int((end - start + _DAY) / step) + 2):
        at = (
            (midnight + timedelta(days=n * step // _DAY)).timestamp()
            if step >= _DAY
            else midnight.timestamp() + n * step
        )
        if start <= at <= end:
            is_day = step >= _DAY or datetime.fromtimestamp(at, language.zone).time() == time()
            ticks.append((at, language.short_day(at) if is_day else language.time_of_day(at)))
    return Axis(start, end, ticks)


def duration_axis(length: float, language: Language) -> Axis:
    """An axis of seconds since a start, in days or hours or minutes."""
    step = _step(length)
    unit_s, unit = (_DAY, "d") if step >= _DAY else (_HOUR, "h") if step >= _HOUR else (60, "min")
    ticks = [
        (float(n * step), f"{language.number(n * step / unit_s, 0)} {unit}")
        for n in range(int(length / step) + 1)
    ]
    return Axis(0.0, length, ticks)


def _step(length: float) -> int:
    return next((step for step in _STEPS if length / step <= _MOST_TICKS), _STEPS[-1])
