"""The schemas of the calls of the journal."""

from __future__ import annotations

from typing import Any, Final

from growd.store.entries.photos import TYPES

_NUMBER: Final = {"type": "number"}
_TEXT: Final = {"type": "string"}
_BOOL: Final = {"type": "boolean"}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_PHOTO: Final = _object(
    name=_TEXT,
    address={"type": "string", "description": "path of the photo on this server"},
    type={"enum": list(TYPES)},
    size={"type": "integer", "description": "bytes"},
    waiting={"type": "boolean", "description": "whether the database does not have it yet"},
)
_PHOTO_FILE: Final = {"type": "string", "format": "binary", "contentMediaType": "image/*"}
ENTRY_SCHEMA: Final = _object(
    id=_TEXT,
    time=_NUMBER,
    written={"type": "number", "description": "when the entry came, UNIX seconds"},
    by=_TEXT,
    text=_TEXT,
    measurements={"type": "object", "additionalProperties": _NUMBER},
    photos=_array(_PHOTO),
    waiting={"type": "boolean", "description": "whether the database does not have it yet"},
    refused={"type": "string", "description": "why the database refused it or a part of it, or empty"},
    earlier={
        **_array(_object(text=_TEXT, by=_TEXT, written=_NUMBER)),
        "description": "the texts before the corrections, oldest first",
    },
)
ENTRIES_SCHEMA: Final = _object(
    environment=_TEXT,
    entries=_array(ENTRY_SCHEMA),
    more={"type": "boolean", "description": "older entries follow: ask with the time of the last as `end`"},
    missing={"type": "string", "description": "why stored entries are missing, or empty"},
)
PHOTOS_SCHEMA: Final = _object(
    environment=_TEXT,
    cameras=_array({**_TEXT, "description": "the configured cameras"}),
    photos=_array(
        _object(
            id=_TEXT,
            address={"type": "string", "description": "path of the photo on this server"},
            environment=_TEXT,
            camera=_TEXT,
            time=_NUMBER,
            width={"type": "integer", "description": "pixels"},
            height={"type": "integer", "description": "pixels"},
            bytes={"type": "integer"},
            sha256=_TEXT,
            recipe_run={"type": "string", "description": "the id of the run at that time, or empty"},
            canopy_cover={"type": ["number", "null"], "description": "percent; null in the dark"},
            canopy_greenness={"type": ["number", "null"], "description": "0 to 1; null without leaves"},
        )
    ),
    more={"type": "boolean", "description": "older photos follow: ask with the time of the last as `end`"},
)


def form_schema(entry: dict[str, Any]) -> dict[str, Any]:
    """The body of an entry with photos."""
    photos = {"type": "array", "items": _PHOTO_FILE, "maxItems": 8}
    schema = {"type": "object", "properties": {"entry": entry, "photo": photos}}
    encoding = {"entry": {"contentType": "application/json"}, "photo": {"contentType": ", ".join(TYPES)}}
    return {"multipart/form-data": {"schema": schema, "encoding": encoding}}
