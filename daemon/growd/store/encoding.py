"""JSON of the store: compact, for any value that a document may hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.runtime.sentence import encode
from growd.store.points import DataPoint

if TYPE_CHECKING:
    from collections.abc import Sequence

_encode: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_point_decoder: Final = msgspec.json.Decoder(DataPoint)
_points_decoder: Final = msgspec.json.Decoder(list[DataPoint])


def to_json(value: Any) -> str:
    """Compact JSON; NaN and infinity raise ValueError.

    Half a surrogate pair, which a document may hold as an escape, stays an escape: SQLite can't store it.
    """
    try:
        text = encode(value).decode()
    except (TypeError, ValueError, OverflowError):  # half a pair, or an integer of more than 64 bits
        return _encode(value)
    return _encode(value) if "null" in text else text  # msgspec writes NaN as null; the slow way refuses it


def point_to_json(point: DataPoint) -> str:
    """A point as the array of its fields."""
    try:
        return encode(point).decode()
    except (ValueError, OverflowError):
        return _encode(msgspec.structs.astuple(point))


def point_from_json(text: str) -> DataPoint:
    """The point from `point_to_json`. ValueError if it is none."""
    try:
        return _point_decoder.decode(text)
    except msgspec.MsgspecError:
        return msgspec.convert(json.loads(text), DataPoint)


def points_from_json(texts: Sequence[str]) -> list[DataPoint]:
    """Points from `point_to_json`, decoded together. ValueError if one of them is none."""
    try:
        return _points_decoder.decode(f"[{','.join(texts)}]")
    except msgspec.MsgspecError:
        return [point_from_json(text) for text in texts]
