"""The JSON Schemas of what the calls about runs answer, by their names in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from growd_analysis.figures.figures import RunFigures
from growd_web.answer_schemas import EVENT, NUMBER, NUMBER_OR_NULL, TEXT, TRUNCATED, array_of, object_of

_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_LISTED_RUN: Final = object_of(
    ("id", "short_id", "environment", "started"),
    id=TEXT,
    short_id={"type": "string", "description": "`run` and the commands accept it, too"},
    environment=TEXT,
    recipe_id=TEXT,
    recipe_rev=TEXT,
    revisions={"type": "integer", "description": "how often another recipe took over"},
    started={"type": "number", "description": "UNIX seconds"},
    started_by=TEXT,
    offset={"type": "number", "description": "seconds of the recipe at the start"},
    ended={**NUMBER_OR_NULL, "description": "UNIX seconds; null while it runs"},
    ended_by=_TEXT_OR_NULL,
    end_reason={**_TEXT_OR_NULL, "description": "finished, stopped ..."},
    elapsed={**NUMBER_OR_NULL, "description": "seconds of the recipe at the end"},
    growd={"type": "string", "description": "growd's version"},
)
_NOTE: Final = object_of(
    id=TEXT,
    time=NUMBER,
    by=TEXT,
    text=TEXT,
    measurements={"type": "object", "description": "values that were recorded with it, by variable"},
    corrects={"type": "string", "description": "the id of the note whose text this one replaces"},
    photos={
        **array_of(TEXT),
        "description": "attachments of the document of this id in `environmental_event`",
    },
)
_BY_HAND: Final = object_of(id=TEXT, time=NUMBER, variable=TEXT, value=NUMBER_OR_NULL, unit=TEXT, by=TEXT)
_RUN: Final = object_of(
    run={"type": "object", "description": "the document of `recipe_run`; docs/recipes.md"},
    short_id=TEXT,
    until={"type": "number", "description": "UNIX time until which notes and measurements belong to the run"},
    notes=array_of(_NOTE),
    measurements={
        **array_of(_BY_HAND),
        "description": "by hand, of variables that no sensor measures",
    },
    events=array_of(object_of(**EVENT)),
    events_truncated=TRUNCATED,
)


def _generable(schema: Any) -> Any:
    """The schema with `{}` for `false`: generators of clients want it, and maxItems leaves nothing for it."""
    if isinstance(schema, dict):
        whole = {name: _generable(each) for name, each in schema.items()}
        return whole | {"items": {}} if schema.get("items") is False else whole
    return [_generable(each) for each in schema] if isinstance(schema, list) else schema


_FIGURES: Final = _generable(
    msgspec.json.schema_components([RunFigures], ref_template="#/components/schemas/{name}")[1]
)
SCHEMAS: Final[dict[str, Any]] = {
    "AnswerRuns": object_of(
        environment=TEXT,
        runs=array_of(_LISTED_RUN),
        more={"type": "boolean", "description": "older runs exist: ask again with `before`"},
    ),
    "AnswerRun": _RUN,
    "AnswerFigures": _FIGURES.pop("RunFigures"),
    **_FIGURES,
}
