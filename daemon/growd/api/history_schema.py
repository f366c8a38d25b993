"""The schema of the answer of `history`."""

from __future__ import annotations

from typing import Any, Final


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_NUMBER: Final = {"type": "number"}
_TEXT: Final = {"type": "string"}
_NUMBER_OR_NULL: Final = {"type": ["number", "null"]}
_BEFORE: Final = {
    **_object(time=_NUMBER, value=_NUMBER_OR_NULL),
    "type": ["object", "null"],
    "description": "the last value before `start`",
}
_COLUMNS: Final = {
    **_object(
        before=_BEFORE,
        time=_array({"type": "integer"}),
        min=_array(_NUMBER_OR_NULL),
        mean=_array(_NUMBER_OR_NULL),
        max=_array(_NUMBER_OR_NULL),
        last=_array(_NUMBER_OR_NULL),
        count=_array({"type": "integer"}),
    ),
    "description": (
        "Columns of equal length, one element for each bucket that has points: its start, then statistics of "
        "its values. A null is a released value; `count` does not include it."
    ),
}
_EVENT: Final = _object(time=_NUMBER, kind=_TEXT, source=_TEXT, message=_TEXT, by=_TEXT)
_EVENT["properties"]["details"] = {
    "type": "object",
    "description": (
        "of a calibration: device, service, variable, unit, before, after, reference; of other events: the "
        "code of the message, and its fields"
    ),
}

HISTORY_SCHEMA: Final = _object(
    environment=_TEXT,
    start={"type": "integer", "description": "start of the first bucket, UNIX seconds"},
    end={"type": "integer", "description": "end of the last bucket"},
    bucket_s={"type": "integer", "description": "the width of a bucket"},
    retired_until={
        "type": "integer",
        "description": "points before this time are retired, so no bucket is narrower than 300 s; or 0",
    },
    series=_array(
        _object(
            variable=_TEXT,
            unit=_TEXT,
            holds_s={"type": "number", "description": "how long a measurement holds at most"},
            breaks={**_array(_NUMBER), "description": "when the measured value was no longer known"},
            resumes={**_array(_NUMBER), "description": "when it was known again"},
            measured=_COLUMNS,
            desired=_COLUMNS,
            commanded=_COLUMNS,
        )
    ),
    events=_array(_EVENT),
    events_truncated={"type": "boolean", "description": "only the newest events are in `events`"},
)
