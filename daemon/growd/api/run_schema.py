"""The schemas of the answers about runs of recipes."""

from __future__ import annotations

from typing import Any, Final

_NUMBER: Final = {"type": "number"}
_NUMBER_OR_NULL: Final = {"type": ["number", "null"]}
_TEXT: Final = {"type": "string"}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}

_LISTED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "short_id": {"type": "string", "description": "`run` and the commands accept it, too"},
        "environment": _TEXT,
        "recipe_id": _TEXT,
        "recipe_rev": _TEXT,
        "revisions": {"type": "integer", "description": "how often another recipe took over"},
        "started": {"type": "number", "description": "UNIX seconds"},
        "started_by": _TEXT,
        "offset": {"type": "number", "description": "seconds of the recipe at the start"},
        "ended": {**_NUMBER_OR_NULL, "description": "UNIX seconds; null while it runs"},
        "ended_by": _TEXT_OR_NULL,
        "end_reason": {**_TEXT_OR_NULL, "description": "finished, stopped ..."},
        "elapsed": {**_NUMBER_OR_NULL, "description": "seconds of the recipe at the end"},
        "growd": {"type": "string", "description": "growd's version"},
    },
    "required": ["id", "short_id", "environment", "started"],
}

RUNS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "environment": _TEXT,
        "runs": {"type": "array", "items": _LISTED},
        "more": {"type": "boolean", "description": "older runs exist: ask again with `before`"},
    },
    "required": ["environment", "runs", "more"],
}


def _array(**properties: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "object", "properties": properties, "required": list(properties)},
    }


RUN_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "run": {"type": "object", "description": "the document of `recipe_run`; docs/recipes.md"},
        "short_id": _TEXT,
        "until": {
            "type": "number",
            "description": "UNIX time until which notes and measurements belong to the run",
        },
        "notes": _array(
            id=_TEXT,
            time=_NUMBER,
            by=_TEXT,
            text=_TEXT,
            measurements={"type": "object", "description": "values that were recorded with it, by variable"},
            corrects={"type": "string", "description": "the id of the note whose text this one replaces"},
            photos={
                "type": "array",
                "items": _TEXT,
                "description": "attachments of the document of this id in `environmental_event`",
            },
        ),
        "measurements": {
            **_array(id=_TEXT, time=_NUMBER, variable=_TEXT, value=_NUMBER_OR_NULL, unit=_TEXT, by=_TEXT),
            "description": "by hand, of variables that no sensor measures",
        },
        "events": _array(time=_NUMBER, kind=_TEXT, source=_TEXT, message=_TEXT, by=_TEXT),
        "events_truncated": {"type": "boolean", "description": "only the newest events are in `events`"},
    },
    "required": ["run", "short_id", "until", "notes", "measurements", "events", "events_truncated"],
}
