"""What growd publishes of its state, as a function of a status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.bus.messages import Quality
from growd.status.notices import notices_of
from growd.status.summary import verdict_of
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.status.model import (
        InterlockStatus,
        OutputStatus,
        Reading,
        RecipeStatus,
        Status,
        VariableStatus,
    )
    from growd_home.layout import HomePlace

Document = dict[str, Any]

_MOST_TEXTS: Final = 20  # in one message
_LONGEST_TEXT: Final = 240  # characters; Home Assistant refuses a state of more than 255
_MINUTE_S: Final = 60.0


def state_of(status: Status, places: Iterable[HomePlace]) -> dict[tuple[str, ...], Document]:
    """The messages by the names of their topics below the device's.

    `time` of a document is when its value was measured, or else the time of the status (UNIX seconds).
    """
    found: dict[tuple[str, ...], Document] = {
        ("status",): _summary(status),
        ("alerts",): _alerts(status),
        ("hold",): {"held": bool(status.holds), "reasons": _texts(status.held)},
    }
    for place in places:
        for names, document in _of_place(status, place):
            found[place.environment, *names] = document
    return {
        names: {**document, "time": document.get("time", status.time)} for names, document in found.items()
    }


def _summary(status: Status) -> Document:
    notices = notices_of(status)
    verdict = verdict_of(status, notices)
    own = [each for each in notices if each.kind != "alert"]
    failures = [each.text for each in own if each.severity == "failure"]
    warnings = [each.text for each in own if each.severity == "warning"]
    machine = status.machine
    return {
        "verdict": {"state": verdict.state, "text": _text(verdict.line), "effects": verdict.effects},
        "state": "failure" if failures else "warning" if warnings else "ok",
        "failures": _texts(failures),
        "warnings": _texts(warnings),
        "stage": status.stage,
        "version": machine.growd_version if machine is not None else "",
        "database": status.database is not None and status.database.reachable,
        "replication": not any(each.has_failed for each in status.replications),
    }


def _alerts(status: Status) -> Document:
    opened = [
        {
            "id": each.id,
            "rule": each.rule,
            "severity": each.severity,
            "text": _text(each.text),
            "since": each.since,
            "acknowledged_by": each.acknowledged_by,
        }
        for each in status.alerts
    ]
    return {"count": len(opened), "alerts": opened[:_MOST_TEXTS]}


def _of_place(status: Status, place: HomePlace) -> Iterator[tuple[tuple[str, ...], Document]]:
    here = {each.variable: each for each in status.variables if each.environment == place.environment}
    for name, each in here.items():
        if name in place.known or each.measured is not None:
            yield ("measured", name), _measured(each, status.time)
    for name in dict.fromkeys([*place.set_points, *(name for name, each in here.items() if each.desired)]):
        found = here.get(name)
        yield ("desired", name), _desired(name, found.desired if found is not None else None)
    for name in place.levels:
        yield ("commanded", name), _commanded(here.get(name))
    for output in status.outputs:
        if output.environment == place.environment:
            yield ("outputs", output.name.replace(" ", "_")), _output(output, here.get(output.variable))
    for recipe in status.recipes:
        if recipe.environment == place.environment:
            yield ("recipe",), _recipe(recipe)
    lead = f"{place.environment}/"
    yield ("interlocks",), _interlocks(lead, status.interlocks)
    failed = {each.name: _text(each.message) for each in status.devices if each.has_failed}
    own = {name.removeprefix(lead): text for name, text in failed.items() if name.startswith(lead)}
    yield ("devices",), {"failed": own}


def _measured(variable: VariableStatus, now: float) -> Document:
    """A value is published only while its quality is ok."""
    reading = variable.measured
    document: Document = {"value": None, "quality": str(Quality.STALE), "unit": variable.unit}
    if reading is None:
        return document
    return {
        **document,
        "value": _value(variable.variable, reading),
        "quality": reading.quality,
        "time": round(now - reading.age_s, 3),
    }


def _desired(name: str, reading: Reading | None) -> Document:
    value = None if reading is None else _value(name, reading)
    by = "" if reading is None or value is None else reading.by
    return {"value": value, "unit": VARIABLES[name].unit, "by": by}


def _commanded(variable: VariableStatus | None) -> Document:
    reading = variable.commanded if variable is not None else None
    if variable is None or reading is None or reading.value is None:
        held_by = variable.held_by if variable is not None else ""
        return {"value": None, "by": "", "hand_left_s": 0, "held_by": held_by}
    return {
        "value": round(reading.value, 3),
        "by": reading.by,
        "hand_left_s": _minutes(variable.hand_left_s),
        "held_by": variable.held_by,
    }


def _output(output: OutputStatus, variable: VariableStatus | None) -> Document:
    """`level` is what was written to the output, None if that is not known."""
    return {
        "level": None if output.level is None else round(output.level, 3),
        "class": output.output_class,
        "variable": output.variable,
        "held_by": variable.held_by if variable is not None else "",
        "energy_kwh": None if output.energy_kwh is None else round(output.energy_kwh, 3),
        "volume_l": None if output.volume_l is None else round(output.volume_l, 3),
    }


def _recipe(recipe: RecipeStatus) -> Document:
    return {
        "state": recipe.state,
        "recipe_id": recipe.recipe_id,
        "phase": _text(recipe.phase),
        "elapsed_s": int(recipe.elapsed_s // _MINUTE_S * _MINUTE_S),
        "remaining_s": _minutes(recipe.remaining_s),
        "started": recipe.started,
        "starts_at": recipe.starts_at,
        "by": recipe.by,
    }


def _interlocks(lead: str, interlocks: Iterable[InterlockStatus]) -> Document:
    """Those that have tripped, and those that hold until they are reset; `problem` unless it is expected."""
    tripped = [
        each for each in interlocks if each.name.startswith(lead) and (each.tripped or each.needs_reset)
    ]
    return {
        "problem": any(not each.is_expected for each in tripped),
        "tripped": {
            each.name.rpartition("/")[2]: {
                "reason": _text(each.reason),
                "since": each.since,
                "needs_reset": each.needs_reset,
                "is_expected": each.is_expected,
                "holds": each.holds,
            }
            for each in tripped
        },
    }


def _value(name: str, reading: Reading) -> float | None:
    if reading.value is None or reading.quality != Quality.OK:
        return None
    return round(reading.value, VARIABLES[name].precision)


def _minutes(seconds: float) -> int:
    """Seconds in whole minutes, rounded up: they need no message each second."""
    return int(-(-seconds // _MINUTE_S) * _MINUTE_S)


def _texts(texts: Iterable[str]) -> list[str]:
    return [_text(text) for text in texts][:_MOST_TEXTS]


def _text(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
