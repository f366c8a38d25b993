"""The report of one run: a page without scripts that prints well."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd import __version__
from growd.variables import VALVE, VARIABLES
from growd_analysis.reports import tables
from growd_analysis.reports.elements import Element, document, element
from growd_analysis.reports.names import Names
from growd_analysis.reports.plots import (
    BLUE,
    GREEN,
    MARK_COLOURS,
    Axis,
    EventMark,
    Frame,
    clock_axis,
    key,
    value_axis,
)
from growd_analysis.reports.reading import notes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd_analysis.figures.figures import RunFigures, VariableFigures
    from growd_analysis.reports.language import Language
    from growd_analysis.reports.reading import CameraShot, Note, PhotoReader, RunCourse, RunReading

DARK: Final = "#e9ebf3"
GAP: Final = "#f3dcd9"
_BAR_HEIGHT: Final = 150
_LEAST_TICKS: Final = 20  # an axis covers at least so many of the smallest steps of a variable


class _Setting(NamedTuple):
    """What all plots of a report share."""

    figures: RunFigures
    dark: list[tuple[float, float]]
    marks: list[EventMark]
    language: Language


async def report(
    reading: RunReading,
    described: dict[str, Any],
    photo: PhotoReader,
    language: Language,
    *,
    now: float,
    shots: Sequence[CameraShot] = (),
) -> bytes:
    """The report as HTML, made at the UNIX time `now`. Raises `StoreError` and `BusError`.

    `described` has the `notes`, `measurements` and `events` of the run; see `RunArchive.describe`. `shots`
    are those of its cameras.
    """
    notes = await notes_of(described, photo)
    names = Names(reading.run, language)
    marks = await asyncio.to_thread(_marks, described["events"], notes, language, names)
    setting = _Setting(reading.figures, await reading.dark_spans(), marks, language)
    climate: list[Element] = []
    for variable in reading.figures.variables:
        course = await reading.course(variable.variable)
        climate += await asyncio.to_thread(_climate, variable, course, setting)
    return await asyncio.to_thread(_whole, reading.run, setting, climate, (described, notes, shots), now)


def _whole(
    run: dict[str, Any],
    setting: _Setting,
    climate: list[Element],
    records: tuple[dict[str, Any], list[Note], Sequence[CameraShot]],
    now: float,
) -> bytes:
    figures, language = setting.figures, setting.language
    say = language.say
    described, notes, shots = records
    names = Names(run, language)
    content = run.get("recipe")
    name = (content.get("name") if isinstance(content, dict) else None) or run.get("recipe_id", "")
    title = say("report", recipe=f"{name}, {language.day(figures.start)}")
    return document(
        title,
        language.code,
        element(
            "h1",
            say("report", recipe=f"{name}, "),
            element("span", language.day(figures.start), class_="whole"),
        ),
        tables.header(run, figures, language, names),
        element("h2", say("summary")),
        *tables.summary(figures, language),
        *tables.shots(shots, language),
        *([element("h2", say("climate")), _key(setting), *climate] if climate else []),
        *_light(figures, language),
        *_use(figures, language),
        element("h2", say("events")),
        tables.happenings(figures, language, names),
        tables.recipe_events(described["events"], language, names),
        *tables.calibrations(described["events"], language),
        element("h2", say("journal")),
        tables.journal(notes, language),
        *tables.measurements(described["measurements"], language),
        element("h2", say("how")),
        *how(figures, language),
        element("p", say("made", version=__version__, time=language.moment(now)), class_="faint"),
    )


def how(figures: RunFigures, language: Language) -> list[Element]:
    """The definitions of the figures."""
    keys = ["how_weights", "how_deviation", "how_outputs"]
    found = [element("p", language.say(key), class_="faint") for key in keys]
    if figures.rolled_up_until is not None:
        time = language.moment(figures.rolled_up_until)
        found.append(element("p", language.say("how_rolled_up", time=time), class_="faint"))
    return found


def value_range(variable: str, values: list[float], language: Language) -> Axis:
    """The axis of a variable that covers these values."""
    known = VARIABLES.get(variable)
    least = _LEAST_TICKS * 10.0 ** -(known.precision if known else 2)
    return value_axis(min(values, default=0.0), max(values, default=1.0), least, language)


def _climate(variable: VariableFigures, course: RunCourse, setting: _Setting) -> list[Element]:
    """The plot of a variable and the table of its days."""
    figures, language = setting.figures, setting.language
    name, unit = language.variable(variable.variable), language.unit(variable.unit)
    columns = (*course.measured, course.set_point)
    values = [value for steps in columns for value in steps.values if value is not None]
    whole = variable.whole
    low, high, mean = (
        language.value(number, variable.variable) for number in (whole.min, whole.max, whole.mean)
    )
    start, end = language.moment(figures.start), language.moment(figures.end)
    described = language.say(
        "plot",
        name=name,
        unit=unit or "1",
        start=start,
        end=end,
        low=low,
        high=high,
        mean=mean,
    )
    x = clock_axis(figures.start, figures.end, language)
    frame = Frame(x, value_range(variable.variable, values, language), name, described)
    frame.shade(setting.dark, DARK, language.say("dark"))
    frame.shade([(gap.begin, gap.end) for gap in figures.gaps], GAP, language.say("gap"))
    frame.grid()
    frame.band(course.measured.low, course.measured.high, GREEN)
    frame.line(course.measured.mean, GREEN)
    frame.line(course.set_point, BLUE, "5 3", 1.2)
    frame.marks(setting.marks)
    heading = element("h3", f"{name}, {unit}" if unit else name)
    days = [tables.variable_days(variable, figures, language)] if len(figures.days) > 1 else []
    return [element("figure", heading, frame.svg), *days]


def _key(setting: _Setting) -> Element:
    say = setting.language.say
    band = element("rect", x=0, y=2, width=26, height=8, fill=GREEN, fill_opacity=0.22)
    line = element("path", d="M0 6H26", stroke=GREEN, stroke_width=1.5)
    dashed = element("path", d="M0 6H26", stroke=BLUE, stroke_width=1.5, stroke_dasharray="5 3")
    entries = [key(say("measured"), band, line), key(say("set_point"), dashed)]
    for text, colour, spans in (("dark", DARK, setting.dark), ("gap", GAP, setting.figures.gaps)):
        if spans:
            entries.append(key(say(text), element("rect", x=0, y=0, width=26, height=12, fill=colour)))
    kinds = {one.kind for one in setting.marks}
    for kind in ("fault", "interlock", "hold", "note", "recipe"):
        if kind in kinds:
            path = "M13 10l4 -7h-8z" if kind == "note" else "M9 10h8l-4 -7z"
            shape = element("path", d=path, fill=MARK_COLOURS.get(kind, "#3c443a"))
            entries.append(key(say("event_recipe" if kind == "recipe" else kind), shape))
    return element("ul", *entries, class_="key")


def _marks(
    events: list[dict[str, Any]], notes: list[Note], language: Language, names: Names
) -> list[EventMark]:
    """Notes, faults, interlocks, holds and changes of the recipe, without their ends."""
    found = [EventMark(note.time, "note", f"{language.moment(note.time)}: {note.text}") for note in notes]
    for one in events:
        is_end = one["message"] in {"released", "started", "ended"} or "is released" in one["message"]
        if one["kind"] in {"fault", "interlock", "hold", "recipe"} and not is_end:
            what = f"{language.moment(one['time'])}: {names.event(one)}"
            found.append(EventMark(one["time"], one["kind"], what))
    return found


def _light(figures: RunFigures, language: Language) -> list[Element]:
    light, say = figures.light, language.say
    if light is None:
        return []
    total = language.number(light.total, 2)
    lines = [say("light_total", total=total, days=language.duration(figures.end - figures.start))]
    if light.lux_per_ppfd is None:
        lines.append(say("from_ppfd"))
    else:
        share = f"±{100 * (light.uncertainty or 0.0):.0f} %"
        lines.append(say("from_lux", factor=f"{light.lux_per_ppfd:.0f}", share=share))
    lines.append(say("only_data"))
    if figures.light_s:
        times = {"light": language.duration(figures.light_s), "dark": language.duration(figures.dark_s)}
        lines.append(say("light_planned", **times))
    name = f"{say('light_integral')}, mol/m²"
    found = [element("h2", say("light")), element("p", " ".join(lines))]
    if len(figures.days) > 1:
        found += [_bars(name, light.days, figures, language), tables.light_days(figures, language)]
    return found


def _use(figures: RunFigures, language: Language) -> list[Element]:
    if not figures.outputs:
        return []
    say = language.say
    found = [element("h2", say("use")), tables.outputs(figures, language)]
    valve = next((one for one in figures.outputs if one.variable == VALVE), None)
    if valve is None:
        return found
    if valve.litres is None:
        found.append(element("p", say("co2_no_flow"), class_="faint"))
    else:
        litres, grams = language.amount(valve.litres), language.amount(valve.grams)
        found.append(element("p", say("co2_used", litres=litres, grams=grams)))
    if len(figures.days) > 1:
        minutes = [
            on / 60 if known else None for on, known in zip(valve.days_on_s, valve.days_known_s, strict=True)
        ]
        name = f"{say('co2_day')}, min"
        found.append(_bars(name, minutes, figures, language))
        found.append(tables.carbon_dioxide_days(valve, figures, language))
    return found


def _bars(name: str, values: list[float | None], figures: RunFigures, language: Language) -> Element:
    top = max((value for value in values if value is not None), default=0.0) or 1.0
    y = value_axis(0.0, top, 0.01, language)
    described = language.say("bars", name=name, days=len(values))
    frame = Frame(Axis(0.0, 1.0, []), y._replace(low=0.0), name, described, _BAR_HEIGHT)
    frame.grid()
    frame.bars(values, [language.short_day(day) for day in figures.days], GREEN)
    return element("figure", element("h3", name), frame.svg)
