"""A comparison of runs: their courses on one axis of time since the start, and their figures side by side."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from growd import __version__
from growd.store.run_documents import short_id
from growd_analysis.reports.elements import Element, document, element, table
from growd_analysis.reports.plots import COLOURS, DASHES, Frame, Steps, duration_axis, key
from growd_analysis.reports.report import how, value_range
from growd_analysis.reports.rows import figure_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd_analysis.reports.language import Language
    from growd_analysis.reports.reading import RunReading


async def comparison(readings: Sequence[RunReading], language: Language, *, now: float) -> bytes:
    """Two to six runs as HTML, made at the UNIX time `now`. Raises `StoreError` and `BusError`."""
    plots: list[Element] = []
    for name in sorted({one.variable for reading in readings for one in reading.figures.variables}):
        curves = [await _curve(reading, name) for reading in readings]
        plots.append(await asyncio.to_thread(_overlay, name, curves, readings, language))
    return await asyncio.to_thread(_whole, readings, plots, language, now)


def run_name(number: int, reading: RunReading, language: Language) -> str:
    """A run for people: "1: basil, 2026-11-24 06:00 (8a0146)"."""
    recipe, identity = reading.run.get("recipe_id", ""), short_id(str(reading.run.get("_id", "")))
    return f"{number}: {recipe}, {language.moment(reading.figures.start)} ({identity})"


async def _curve(reading: RunReading, name: str) -> Steps:
    """The mean of a variable by the seconds since the start, empty if it was not measured."""
    if reading.figures.variable(name) is None:
        return Steps([], [])
    mean = (await reading.course(name)).measured.mean
    return Steps([time - reading.figures.start for time in mean.times], mean.values)


def _overlay(
    name: str, curves: Sequence[Steps], readings: Sequence[RunReading], language: Language
) -> Element:
    title = language.variable(name)
    unit = next(found.unit for reading in readings if (found := reading.figures.variable(name)))
    shown = language.unit(unit)
    described = language.say("overlay", name=title, unit=shown or "1", number=len(readings))
    values = [value for curve in curves for value in curve.values if value is not None]
    length = max(reading.figures.end - reading.figures.start for reading in readings)
    frame = Frame(duration_axis(length, language), value_range(name, values, language), title, described)
    frame.grid()
    for number, curve in enumerate(curves):
        frame.line(curve, COLOURS[number], DASHES[number])
    return element("figure", element("h3", f"{title}, {shown}" if shown else title), frame.svg)


def _whole(readings: Sequence[RunReading], plots: Sequence[Element], language: Language, now: float) -> bytes:
    say = language.say
    names = [run_name(n + 1, reading, language) for n, reading in enumerate(readings)]
    title = say("comparison", number=len(readings))
    figures = [reading.figures for reading in readings]
    rolled = max(figures, key=lambda one: one.rolled_up_until or 0.0)
    return document(
        f"{title}: {'; '.join(names)}",
        language.code,
        element("h1", title),
        _runs(names, readings, language),
        element(
            "p", f"{say('times_shown')}: {language.times(figures[0].start, figures[-1].end)}", class_="faint"
        ),
        element("h2", say("climate")),
        element("p", say("since_start"), class_="faint"),
        _key(names),
        *plots,
        element("h2", say("figures")),
        _figures(names, readings, language),
        element("h2", say("how")),
        *how(rolled, language),
        element("p", say("made", version=__version__, time=language.moment(now)), class_="faint"),
    )


def _runs(names: Sequence[str], readings: Sequence[RunReading], language: Language) -> Element:
    heads = [language.say(name) for name in ("recipe", "run", "chamber", "started", "lasted")]
    rows = [
        [
            name,
            str(reading.run.get("_id", "")),
            reading.environment,
            language.moment(reading.figures.start),
            language.duration(reading.figures.end - reading.figures.start),
        ]
        for name, reading in zip(names, readings, strict=True)
    ]
    return table(heads, rows)


def _key(names: Sequence[str]) -> Element:
    entries = [
        key(name, element("path", d="M0 6H26", stroke=colour, stroke_width=2, stroke_dasharray=dash))
        for name, colour, dash in zip(names, COLOURS, DASHES, strict=False)
    ]
    return element("ul", *entries, class_="key")


def _figures(names: Sequence[str], readings: Sequence[RunReading], language: Language) -> Element:
    """The figures, each with its difference from the first run below it."""
    rows: list[list[Element | str | None]] = []
    for row in figure_rows([reading.figures for reading in readings], language):
        cells = [
            element("div", value, element("div", difference, class_="faint") if difference else None)
            for value, difference in zip(row.values, row.differences, strict=True)
        ]
        rows.append([row.name, *cells])
    caption = language.say("difference")
    return table(["", *names], rows, numbers=range(1, len(names) + 1), kind="sides", caption=caption)
