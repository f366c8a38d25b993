"""The tables of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.store.memories import CALIBRATION
from growd.variables import CANOPY_COVER, VARIABLES
from growd_analysis.reports.elements import Content, Element, add, element, pairs, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from growd.store.couch import Document
    from growd_analysis.figures.figures import Deviation, OutputFigures, RunFigures, VariableFigures
    from growd_analysis.reports.language import Language
    from growd_analysis.reports.names import Names
    from growd_analysis.reports.reading import CameraShot, Note

LASTING: Final = ("fault", "interlock", "hold")
SUMMED: Final = {"yields": ("harvest_fresh_mass", "harvest_dry_mass"), "water": ("water_added",)}
"""Measurements by hand of which the sum over a run is of interest, by heading."""

_MOST_TIMES: Final = 6  # in a cell


def header(run: Document, figures: RunFigures, language: Language, names: Names) -> Element:
    """What ran, when, by whom, and where."""
    say = language.say
    ended = say("running")
    if run.get("ended") is not None:
        reason = str(run.get("end_reason") or "")
        ended = f"{language.moment(figures.end)}, {say(reason) if reason in REASONS else reason}"
        ended = _by(ended, names.person(run.get("ended_by")), language)
    changes = [
        element("div", _by(_change(change, language), names.person(change.get("by")), language))
        for change in run.get("revisions") or ()
    ]
    return pairs(
        [
            (say("run"), str(run.get("_id", ""))),
            (say("recipe"), _recipe(run, language)),
            (say("chamber"), str(run["environment"])),
            (
                say("started"),
                _by(language.moment(figures.start), names.person(run.get("started_by")), language),
            ),
            (say("ended"), ended),
            (say("lasted"), language.duration(figures.end - figures.start)),
            (say("times_shown"), language.times(figures.start, figures.end)),
            (say("changes"), element("div", *changes) if changes else None),
            (say("experiment"), _experiment(run, language)),
            (say("growd"), str(run.get("growd") or say("not_recorded"))),
            *_chamber(run, language),
            (say("self_test"), _self_test(run.get("self_test"), language)),
        ]
    )


REASONS: Final = ("finished", "stopped", "not valid any more")


def summary(figures: RunFigures, language: Language) -> list[Element]:
    """A row for each measured variable, and one for each deviation."""
    say = language.say
    if not figures.variables:
        return [element("p", say("none"))]
    length = (figures.end - figures.start) or 1.0
    has_light = figures.light_s > 0
    heads = [say(key) for key in ("variable", "unit", "min", "mean", "max")]
    heads += [say("day_mean"), say("night_mean")] if has_light else []
    rows = []
    for one in figures.variables:
        numbers = [one.whole.min, one.whole.mean, one.whole.max]
        if has_light:
            numbers += [part.mean if part else None for part in (one.day, one.night)]
        row = [language.variable(one.variable), language.unit(one.unit)]
        row += [language.value(number, one.variable) for number in numbers]
        rows.append([*row, language.share(one.whole.data_s / length)])
    found = [table([*heads, say("data")], rows, numbers=range(2, len(heads) + 1))]
    rows = [_deviation(one, one.deviation, language) for one in figures.variables if one.deviation]
    if rows:
        heads = [say(key) for key in ("variable", "deviation", "tolerance", "within", "longest")]
        found.append(table(heads, rows, numbers=(1, 2, 3)))
    return found


def variable_days(one: VariableFigures, figures: RunFigures, language: Language) -> Element:
    """A row for each day of a variable."""
    say, days, name = language.say, one.days, language.variable(one.variable)
    heads = [say("day"), say("data"), say("min"), say("mean"), say("max")]
    heads += [say("deviation"), say("within")] if one.deviation else []
    rows = []
    for n, begin in enumerate(figures.days):
        length = (figures.days[n + 1] if n + 1 < len(figures.days) else figures.end) - begin
        row = [language.day(begin), language.share(days.data_s[n] / length if length else None)]
        row += [language.value(column[n], one.variable) for column in (days.min, days.mean, days.max)]
        if one.deviation:
            row += [language.value(days.mean_absolute[n], one.variable), language.share(days.within[n])]
        rows.append(row)
    caption = say("each_day", name=f"{name}, {language.unit(one.unit)}".removesuffix(", "))
    return table(heads, rows, numbers=range(1, len(heads)), kind="days", caption=caption)


def outputs(figures: RunFigures, language: Language) -> Element:
    """A row for each output."""
    say = language.say
    heads = [say(key) for key in ("output", "on_time", "on_share", "starts", "level", "known")]
    rows = [_output(one, figures.end - figures.start, language) for one in figures.outputs]
    for key, used in (
        ("energy", [one.energy_kwh for one in figures.outputs]),
        ("volume", [one.litres for one in figures.outputs]),
    ):
        if any(value is not None for value in used):
            heads.append(say(key))
            for row, value in zip(rows, used, strict=True):
                row.append(language.amount(value))
    return table(heads, rows, numbers=range(1, len(heads)))


def carbon_dioxide_days(valve: OutputFigures, figures: RunFigures, language: Language) -> Element:
    """A row for each day of the CO2 valve."""
    say = language.say
    heads = [say("day"), say("co2_day"), say("starts"), *([say("litres")] if valve.days_litres else [])]
    rows = []
    for n, begin in enumerate(figures.days):
        is_known = valve.days_known_s[n] > 0
        starts = say("not_known") if valve.days_starts is None else str(valve.days_starts[n])
        row = [
            language.day(begin),
            language.duration(valve.days_on_s[n]) if is_known else say("not_known"),
            starts,
        ]
        if valve.days_litres:
            row.append(language.amount(valve.days_litres[n] if is_known else None))
        rows.append(row)
    return table(heads, rows, numbers=range(1, len(heads)), kind="days")


def light_days(figures: RunFigures, language: Language) -> Element:
    """A row for each day of the light integral."""
    assert figures.light is not None  # noqa: S101
    heads = [language.say("day"), f"{language.say('light_integral')}, mol/m²"]
    rows = [
        [language.day(begin), language.number(value, 2)]
        for begin, value in zip(figures.days, figures.light.days, strict=True)
    ]
    return table(heads, rows, numbers=(1,), kind="days")


def happenings(figures: RunFigures, language: Language, names: Names) -> Element:
    """Faults, interlocks and holds by kind and source, and gaps."""
    say = language.say
    heads = [say(key) for key in ("kind", "source", "count", "total", "times")]
    rows: list[list[str]] = []
    for one in figures.events:
        if one.kind in LASTING:
            times = _times(one.times, one.count, figures, language)
            lasted_s = one.lasted_s + sum(figures.end - begin for begin, end in one.times if end is None)
            lasted = language.duration(lasted_s) if lasted_s else ""
            rows.append([say(one.kind), names.source(one.kind, one.source), str(one.count), lasted, times])
    for is_clean, key in ((True, "clean_gap"), (False, "power_gap")):
        gaps = [gap for gap in figures.gaps if gap.clean is is_clean]
        if gaps:
            times = _times([(gap.begin, gap.end) for gap in gaps], len(gaps), figures, language)
            total = language.duration(sum(gap.end - gap.begin for gap in gaps))
            rows.append([say("gap"), say(key), str(len(gaps)), total, times])
    return table(heads, rows, numbers=(2,)) if rows else element("p", say("no_events"))


def _times(
    spans: Sequence[tuple[float, float | None]], count: int, figures: RunFigures, language: Language
) -> str:
    """The first of so many spans in words, and how many more there are."""
    shown = [_span(begin, end, language, figures.end) for begin, end in spans[:_MOST_TIMES]]
    more = [language.say("more", number=count - len(shown))] if count > len(shown) else []
    return "; ".join(shown + more)


def recipe_events(events: Sequence[dict[str, Any]], language: Language, names: Names) -> Element | None:
    """What happened to the recipe: changes, pauses, skips."""
    rows = [
        [language.moment(one["time"]), names.event(one), names.author(one)]
        for one in events
        if one["kind"] == "recipe"
    ]
    heads = [language.say(key) for key in ("time", "recipe", "author")]
    return table(heads, rows) if rows else None


def calibrations(events: Sequence[dict[str, Any]], language: Language) -> list[Element]:
    """The calibrations during the run, if there were any."""
    rows = [
        _calibration(one, one.get("details") or {}, language) for one in events if one["kind"] == CALIBRATION
    ]
    heads = [
        language.say(key) for key in ("time", "device", "unit", "before", "after", "reference", "author")
    ]
    if not rows:
        return []
    return [element("h2", language.say("calibrations")), table(heads, rows, numbers=(3, 4, 5))]


def _calibration(one: Mapping[str, Any], details: Mapping[str, Any], language: Language) -> list[str]:
    variable = str(details.get("variable", ""))
    numbers = [details.get(name) for name in ("before", "after", "reference")]
    return [
        language.moment(one["time"]),
        f"{details.get('device', one['source'])}: {language.variable(variable)}",
        language.unit(str(details.get("unit", ""))),
        *("" if value is None else language.value(value, variable) for value in numbers),
        str(one["by"] or ""),
    ]


def shots(found: Sequence[CameraShot], language: Language) -> list[Element]:
    """Photos of cameras, each with its time and what leaves cover."""
    if not found:
        return []
    photos = element("div", class_="photos")
    for photo, address in found:
        time = language.moment(photo.time)
        lines = [f"{photo.camera}, {time}"]
        if photo.canopy_cover is not None:
            cover = language.value(photo.canopy_cover, CANOPY_COVER)
            lines.append(f"{language.variable(CANOPY_COVER)}: {cover} %")
        image = element("img", src=address, alt=language.say("photo", time=time))
        caption = element("figcaption", ". ".join(lines), class_="faint")
        photos.append(element("figure", image, caption))
    return [element("h2", language.say("photos")), photos]


def journal(notes: Sequence[Note], language: Language) -> Element:
    """The notes with their photos."""
    say = language.say
    if not notes:
        return element("p", say("no_entries"))
    rows: list[list[Content]] = []
    for note in notes:
        photos = element("div", class_="photos")
        for photo in note.photos:
            if photo.address:
                shown = say("photo", time=language.moment(note.time))
                photos.append(element("img", src=photo.address, alt=shown))
            else:
                size = language.number(photo.size / 1e6)
                photos.append(element("p", say("photo_not_here", name=photo.name, size=size)))
        measured = "; ".join(_by_hand(name, value, language) for name, value in note.measurements.items())
        text = element("div", note.text, class_="entry")
        cell = element("div", text, measured or None, photos if len(photos) else None)
        rows.append([language.moment(note.time), cell, note.by])
    return table([say(key) for key in ("time", "entry", "author")], rows)


def measurements(readings: Sequence[dict[str, Any]], language: Language) -> list[Element]:
    """Measurements by hand, and the sums of yields."""
    say = language.say
    if not readings:
        return []
    heads = [say(key) for key in ("time", "variable", "value", "unit", "author")]
    rows = [
        [
            language.moment(one["time"]),
            language.variable(one["variable"]),
            language.typed(one["value"]) if isinstance(one["value"], int | float) else str(one["value"]),
            language.unit(one["unit"]),
            str(one["by"]),
        ]
        for one in readings
    ]
    found = [element("h3", say("by_hand")), table(heads, rows, numbers=(2,))]
    heads = [say("variable"), say("sum"), say("unit")]
    sums: list[Element] = []
    for heading, names in SUMMED.items():
        if rows := _sums(readings, names, language):
            sums += [element("h3", say(heading)), table(heads, rows, numbers=(1,))]
    return [*sums, *found]


def _sums(readings: Sequence[dict[str, Any]], names: Sequence[str], language: Language) -> list[list[str]]:
    rows = []
    for name in names:
        found = [one for one in readings if one["variable"] == name and isinstance(one["value"], int | float)]
        if found:
            total = language.typed(sum(one["value"] for one in found))
            rows.append([language.variable(name), total, language.unit(found[0]["unit"])])
    return rows


def _by_hand(name: str, value: Any, language: Language) -> str:
    known = VARIABLES.get(name)
    unit = language.unit(known.unit) if known else ""
    shown = language.typed(value) if isinstance(value, int | float) else str(value)
    return f"{language.variable(name)}: {shown} {unit}".rstrip()


def _recipe(run: Document, language: Language) -> Element:
    content = run.get("recipe")
    name = content.get("name") if isinstance(content, dict) else None
    shown = str(run.get("recipe_id", ""))
    revision = str(run.get("recipe_rev") or "").partition("-")[0]
    shown += f" ({language.say('revision', number=revision)})" if revision else ""
    return add(
        element("div"), element("strong", str(name)) if name else None, f", {shown}" if name else shown
    )


def _change(change: dict[str, Any], language: Language) -> str:
    revision = language.say("revision", number=str(change.get("recipe_rev") or "").partition("-")[0])
    position = language.duration(float(change["elapsed"]))
    when = language.say("at_position", time=language.moment(float(change["time"])), position=position)
    return f"{change['recipe_id']} ({revision}): {when}"


def _by(what: str, who: Any, language: Language) -> str:
    return language.say("by", what=what, who=str(who)) if who else what


def _chamber(run: Document, language: Language) -> list[tuple[str, Element | str | None]]:
    """Sensors, outputs and calibrations at the start."""
    say = language.say
    configuration = run.get("configuration") or {}
    if not configuration:
        return [(say("sensors"), say("not_recorded"))]
    sensors = [f"{one.get('name')} ({one.get('kind')})" for one in configuration.get("sensor") or ()]
    outputs = [
        f"{one.get('name')} ({language.variable(_role_of(one))})" for one in configuration.get("output") or ()
    ]
    light = configuration.get("light") or {}
    channels = [str(one.get("name")) for one in light.get("channel") or ()] if light.get("enabled") else []
    lamp = [f"{language.variable('light_illuminance')} ({', '.join(channels)})"] if channels else []
    calibrations = run.get("calibrations") or {}
    return [
        (say("sensors"), ", ".join(sensors)),
        (say("outputs"), ", ".join([*lamp, *outputs])),
        (say("calibrations"), _calibrations(calibrations.get("sensors") or {}, language)),
    ]


def _experiment(run: Document, language: Language) -> str | None:
    """The members of `study`, None if there is none."""
    study = run.get("study") or {}
    return ", ".join(f"{language.say(f'study_{name}')}: {text}" for name, text in study.items()) or None


def _self_test(last: Any, language: Language) -> Element | None:
    """The last self-test before the run, and why outputs failed."""
    if not last:
        return None
    time, results = language.moment(float(last["ended"])), last["results"]
    counted = {name: sum(one["outcome"] == name for one in results) for name in ("passed", "failed")}
    rest = len(results) - sum(counted.values())
    if last["state"] == "done":
        words = language.say("self_test_is", time=time, rest=rest, **counted)
    else:
        words = language.say("self_test_stopped", time=time, why=last["message"])
    failed = [f"{one['name']}: {one['reason']}" for one in results if one["outcome"] == "failed"]
    return element("div", words, *(element("div", each) for each in failed))


def _role_of(output: Mapping[str, Any]) -> str:
    """The own variable of an output, or what it drives."""
    return str(output.get("variable") or next(iter(output.get("drives") or ()), ""))


def _calibrations(sensors: Any, language: Language) -> str:
    if not isinstance(sensors, dict) or not sensors:
        return language.say("none")
    parts = []
    for name, line in sensors.items():
        members = line.items() if isinstance(line, dict) else [("", line)]
        shown = ", ".join(f"{member} {value}".strip() for member, value in members)
        parts.append(f"{name}: {shown}")
    return "; ".join(parts)


def _deviation(one: VariableFigures, found: Deviation, language: Language) -> list[str]:
    unit = language.unit(one.unit)
    tolerance = f"±{found.tolerance.absolute:g} {unit}"
    if found.tolerance.relative:
        tolerance = language.say("or", one=tolerance, other=f"±{100 * found.tolerance.relative:.0f} %")
    longest = ""
    if found.longest_at is not None:
        lasted, time = language.duration(found.longest_s), language.moment(found.longest_at)
        longest = language.say("from", lasted=lasted, time=time)
    deviation = f"{language.value(found.mean_absolute, one.variable)} {unit}"
    return [language.variable(one.variable), deviation, tolerance, language.share(found.within), longest]


def _output(one: OutputFigures, run_s: float, language: Language) -> list[str]:
    starts = language.say("not_known") if one.starts is None else language.number(one.starts, 0)
    known_s = one.known_s or (run_s if one.is_counted else 0.0)  # a channel of the lamp has no commands
    share = one.on_s / known_s if known_s else None
    return [
        language.variable(one.variable),
        language.duration(one.on_s),
        language.share(share),
        starts,
        language.share(one.mean_level),
        language.duration(known_s),
    ]


def _span(begin: float, end: float | None, language: Language, run_end: float) -> str:
    if end is None:
        lasted = language.duration(run_end - begin)
        return language.say("open_end", time=language.moment(begin), lasted=lasted)
    return f"{language.moment(begin)} ({language.duration(end - begin)})"
