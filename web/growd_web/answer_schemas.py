"""The JSON Schemas of what the API answers, by the names that `Operation.answer` gives them."""

from __future__ import annotations

from typing import Any, Final

from growd.bus.messages import Quality
from growd.store.entries.photos import TYPES


def object_of(required: tuple[str, ...] | None = None, /, **properties: Any) -> dict[str, Any]:
    """An object with these members, all of which are `required` by default."""
    needed = properties if required is None else required
    return {"type": "object", "properties": properties, "required": list(needed)}


def array_of(items: dict[str, Any]) -> dict[str, Any]:
    """An array of these items."""
    return {"type": "array", "items": items}


NUMBER: Final = {"type": "number"}
_INTEGER: Final = {"type": "integer"}
TEXT: Final = {"type": "string"}
NUMBER_OR_NULL: Final = {"type": ["number", "null"]}
_NAMES: Final = array_of(TEXT)
_QUALITY: Final = {"enum": list(Quality)}
_PHOTO_FILE: Final = {"type": "string", "format": "binary", "contentMediaType": "image/*"}

# streams

_MESSAGE: Final = {
    "value": {},
    "time": {"type": "number", "description": "UNIX seconds"},
    "quality": _QUALITY,
    "node": TEXT,
    "number": {"type": "integer", "description": "counts the topic's messages"},
}
_CHANGED: Final = {name: each for name, each in _MESSAGE.items() if name != "value"} | {
    "changes": {
        "description": "an array of the new value, or an object of the members or elements that changed"
    }
}
_TOPIC: Final = {"type": "string", "description": "its name without a leading slash"}
_HEARTBEAT: Final = {"type": "number", "description": "growd's time in UNIX seconds"}
_DROPPED: Final = {
    **object_of(dropped={"type": "integer", "minimum": 1}),
    "description": "number of messages dropped here because the client was too slow",
}

# the past

_COLUMNS: Final = {
    **object_of(
        before={
            **object_of(time=NUMBER, value=NUMBER_OR_NULL),
            "type": ["object", "null"],
            "description": "the last value before `start`",
        },
        time=array_of(_INTEGER),
        min=array_of(NUMBER_OR_NULL),
        mean=array_of(NUMBER_OR_NULL),
        max=array_of(NUMBER_OR_NULL),
        last=array_of(NUMBER_OR_NULL),
        count=array_of(_INTEGER),
    ),
    "description": (
        "Columns of equal length, one element for each bucket that has points: its start, then statistics of "
        "its values. A null is a released value; `count` does not include it."
    ),
}
EVENT: Final = {"time": NUMBER, "kind": TEXT, "source": TEXT, "message": TEXT, "by": TEXT}
_DETAILS: Final = {
    "type": "object",
    "description": (
        "of a calibration: device, service, variable, unit, before, after, reference; of other events: the "
        "code of the message, and its fields"
    ),
}
TRUNCATED: Final = {"type": "boolean", "description": "only the newest events are in `events`"}
_HISTORY: Final = object_of(
    environment=TEXT,
    start={"type": "integer", "description": "start of the first bucket, UNIX seconds"},
    end={"type": "integer", "description": "end of the last bucket"},
    bucket_s={"type": "integer", "description": "the width of a bucket"},
    retired_until={
        "type": "integer",
        "description": "points before this time are retired, so no bucket is narrower than 300 s; or 0",
    },
    series=array_of(
        object_of(
            variable=TEXT,
            unit=TEXT,
            holds_s={"type": "number", "description": "how long a measurement holds at most"},
            breaks={**array_of(NUMBER), "description": "when the measured value was no longer known"},
            resumes={**array_of(NUMBER), "description": "when it was known again"},
            measured=_COLUMNS,
            desired=_COLUMNS,
            commanded=_COLUMNS,
        )
    ),
    events=array_of(object_of((*EVENT,), **EVENT, details=_DETAILS)),
    events_truncated=TRUNCATED,
)

# journals and photos

_ADDRESS: Final = {"type": "string", "description": "path of the photo on this server"}
_WAITING: Final = {"type": "boolean", "description": "whether the database does not have it yet"}
_ENTRY: Final = object_of(
    id=TEXT,
    time=NUMBER,
    written={"type": "number", "description": "when the entry came, UNIX seconds"},
    by=TEXT,
    text=TEXT,
    measurements={"type": "object", "additionalProperties": NUMBER},
    photos=array_of(
        object_of(
            name=TEXT,
            address=_ADDRESS,
            type={"enum": list(TYPES)},
            size={"type": "integer", "description": "bytes"},
            waiting=_WAITING,
        )
    ),
    waiting=_WAITING,
    refused={"type": "string", "description": "why the database refused it or a part of it, or empty"},
    earlier={
        **array_of(object_of(text=TEXT, by=TEXT, written=NUMBER)),
        "description": "the texts before the corrections, oldest first",
    },
)
_ENTRIES: Final = object_of(
    environment=TEXT,
    entries=array_of(_ENTRY),
    more={"type": "boolean", "description": "older entries follow: ask with the time of the last as `end`"},
    missing={"type": "string", "description": "why stored entries are missing, or empty"},
)
_PHOTOS: Final = object_of(
    environment=TEXT,
    cameras=array_of({**TEXT, "description": "the configured cameras"}),
    photos=array_of(
        object_of(
            id=TEXT,
            address=_ADDRESS,
            environment=TEXT,
            camera=TEXT,
            time=NUMBER,
            width={"type": "integer", "description": "pixels"},
            height={"type": "integer", "description": "pixels"},
            bytes=_INTEGER,
            sha256=TEXT,
            recipe_run={"type": "string", "description": "the id of the run at that time, or empty"},
            canopy_cover={**NUMBER_OR_NULL, "description": "percent; null in the dark"},
            canopy_greenness={**NUMBER_OR_NULL, "description": "0 to 1; null without leaves"},
        )
    ),
    more={"type": "boolean", "description": "older photos follow: ask with the time of the last as `end`"},
)

ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "object": {"type": "object"},
    "names": object_of(results=_NAMES),
    "value": object_of(result={}),
    "service": object_of(request_type=TEXT, node=TEXT, args=_NAMES),
    "reply": object_of(success={"const": True}, message=TEXT),
    "topic": object_of(type=TEXT, subs=_NAMES, pubs=_NAMES),
    "posted": object_of(
        ("message",),
        message=TEXT,
        hint={"type": "string", "description": "why the message has no effect, or only a part of it"},
    ),
    "data": object_of(result={}, time=NUMBER, quality=_QUALITY, node=TEXT),
    "session": object_of(
        access={"enum": ["local", "open", "couchdb"]},
        user={"type": "string", "description": "empty without a valid login"},
        role={"enum": ["", "reader", "operator", "admin"], "description": "empty without any permission"},
    ),
    "node": object_of(node_name=TEXT, pubs=_NAMES, subs=_NAMES, srvs=_NAMES, params=_NAMES),
    "stream": {"anyOf": [object_of(**_MESSAGE), _DROPPED]},
    "topics": {
        "anyOf": [
            _DROPPED,
            object_of(topic=_TOPIC, **_MESSAGE),
            object_of(topic=_TOPIC, **_CHANGED),
            object_of(heartbeat=_HEARTBEAT),
        ]
    },
    "history": _HISTORY,
    "entry": _ENTRY,
    "entries": _ENTRIES,
    "photo": _PHOTO_FILE,
    "photos": _PHOTOS,
    "page": {"type": "string", "description": "HTML"},
}


def form_schema(entry: dict[str, Any]) -> dict[str, Any]:
    """The body of an entry with photos."""
    photos = {"type": "array", "items": _PHOTO_FILE, "maxItems": 8}
    schema = {"type": "object", "properties": {"entry": entry, "photo": photos}}
    encoding = {"entry": {"contentType": "application/json"}, "photo": {"contentType": ", ".join(TYPES)}}
    return {"multipart/form-data": {"schema": schema, "encoding": encoding}}
