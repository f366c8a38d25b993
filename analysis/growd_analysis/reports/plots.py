"""Plots as SVG: the course of a variable, bars of days, and several runs on one axis."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final, NamedTuple

from growd_analysis.reports.elements import Element, add, element

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


WIDTH: Final = 720
HEIGHT: Final = 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 18, 20

GREEN: Final = "#1c6b3c"
BLUE: Final = "#1f5fa8"
COLOURS: Final = (GREEN, "#a34a00", BLUE, "#7a2c8f", "#6b6300", "#444444")
DASHES: Final = (None, "7 3", "2 2", "9 2 2 2", "5 5", "1 3")
MARK_COLOURS: Final = {"fault": "#a8201a", "interlock": "#a8201a", "hold": "#a34a00", "recipe": BLUE}


class Steps(NamedTuple):
    """Values that hold from their time to the next one; None is no value."""

    times: list[float]
    values: list[float | None]


class Course(NamedTuple):
    """A measured variable: its mean, minimum and maximum over time."""

    mean: Steps
    low: Steps
    high: Steps


class EventMark(NamedTuple):
    """An event at a time."""

    time: float
    kind: str
    text: str


class Frame:
    """A plot with two axes, and what is drawn into it."""

    def __init__(self, x: Axis, y: Axis, title: str, description: str, height: int = HEIGHT) -> None:
        self._x, self._y, self._height = x, y, height
        self.svg = element("svg", viewBox=f"0 0 {WIDTH} {height}", role="img")
        self.svg.set("aria-label", f"{title}. {description}")
        add(self.svg, element("title", title), element("desc", description))

    def x(self, time: float) -> float:
        """The place of a time, from the left."""
        low, high, _ = self._x
        share = (min(max(time, low), high) - low) / ((high - low) or 1.0)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """The place of a value, from the top."""
        low, high, _ = self._y
        return (
            self._height - _BOTTOM - (value - low) / ((high - low) or 1.0) * (self._height - _TOP - _BOTTOM)
        )

    def shade(self, spans: Sequence[tuple[float, float]], colour: str, title: str) -> None:
        """Spans of time."""
        for begin, end in spans:
            left, right = self.x(begin), self.x(end)
            if right > left:
                shape = element(
                    "rect", element("title", title), x=left, y=_TOP, width=right - left,
                    height=self._height - _TOP - _BOTTOM, fill=colour,
                )  # fmt: skip
                self.svg.append(shape)

    def grid(self) -> None:
        """The lines and labels of both axes."""
        bottom = self._height - _BOTTOM
        for value, label in self._y.ticks:
            y = self.y(value)
            self.svg.append(element("path", d=f"M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}", stroke="#d5dbd2"))
            self.svg.append(element("text", label, x=_LEFT - 5, y=y + 3.5, text_anchor="end"))
        for at, label in self._x.ticks:
            x = self.x(at)
            self.svg.append(element("path", d=f"M{x:.1f} {bottom}v4", stroke="#566052"))
            anchor = "end" if x > WIDTH - 30 else "middle"
            self.svg.append(element("text", label, x=x, y=bottom + 15, text_anchor=anchor))
        self.svg.append(element("path", d=f"M{_LEFT} {bottom}H{WIDTH - _RIGHT}", stroke="#566052"))

    def band(self, low: Steps, high: Steps, colour: str) -> None:
        """The area between two courses with the same times."""
        parts = []
        for there, back in zip(_stretches(low), _stretches(high), strict=True):
            edge = self._outline(back)
            turned = [(begin, value) for begin, value in reversed(there[0])]
            x, path = self.x(there[1]), []
            for begin, value in turned:
                path.append(f"V{self.y(value):.1f}H{self.x(begin):.1f}")
            parts.append(f"{edge}H{x:.1f}{''.join(path)}Z")
        self._path("".join(parts), fill=colour, fill_opacity=0.22)

    def line(self, steps: Steps, colour: str, dash: str | None = None, width: float = 1.3) -> None:
        """A course as steps."""
        path = "".join(f"{self._outline(one)}H{self.x(one[1]):.1f}" for one in _stretches(steps))
        self._path(path, fill="none", stroke=colour, stroke_width=width, stroke_dasharray=dash)

    def bars(self, values: Sequence[float | None], labels: Sequence[str], colour: str) -> None:
        """A bar for each place from 0 on, with its label."""
        room = (WIDTH - _LEFT - _RIGHT) / max(1, len(values))
        base = self._height - _BOTTOM
        every = -(-len(values) // 12)
        for n, value in enumerate(values):
            x = _LEFT + n * room
            if value is not None:
                bar = element(
                    "rect", x=x + 0.15 * room, y=self.y(value), width=0.7 * room, height=base - self.y(value),
                    fill=colour,
                )  # fmt: skip
                self.svg.append(bar)
            if n % every == 0:
                self.svg.append(element("text", labels[n], x=x + room / 2, y=base + 15, text_anchor="middle"))

    def marks(self, marks: Sequence[EventMark]) -> None:
        """Events above the plot: triangles down are notes, triangles up faults and interlocks."""
        for mark in marks:
            x = self.x(mark.time)
            if mark.kind == "recipe":
                self.svg.append(
                    element(
                        "path", d=f"M{x:.1f} {_TOP}V{self._height - _BOTTOM}", stroke=BLUE, stroke_width=0.8
                    )
                )
            shape = "l4 -7h-8z" if mark.kind == "note" else "m-4 0h8l-4 -7z"
            colour = MARK_COLOURS.get(mark.kind, "#3c443a")
            self.svg.append(
                element("path", element("title", mark.text), d=f"M{x:.1f} {_TOP - 3}{shape}", fill=colour)
            )

    def _outline(self, stretch: tuple[list[tuple[float, float]], float]) -> str:
        (begin, value), *rest = stretch[0]
        path = [f"M{self.x(begin):.1f} {self.y(value):.1f}"]
        path += [f"H{self.x(begin):.1f}V{self.y(value):.1f}" for begin, value in rest]
        return "".join(path)

    def _path(self, path: str, **attributes: str | float | None) -> None:
        if path:
            self.svg.append(element("path", d=path, **attributes))


def key(name: str, *shapes: Element) -> Element:
    """An entry of a key: a sample of 26 by 12, and its name."""
    return element("li", element("svg", *shapes, viewBox="0 0 26 12", aria_hidden="true"), name)


def _stretches(steps: Steps) -> Iterator[tuple[list[tuple[float, float]], float]]:
    """The stretches with values: their steps, and the time at which each ends."""
    present: list[tuple[float, float]] = []
    for at, value in zip(steps.times, steps.values, strict=True):
        if value is not None:
            present.append((at, value))
        elif present:
            yield present, at
            present = []
    if present:
        yield present, steps.times[-1]
