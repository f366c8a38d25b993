"""What a document of a device must be, before it is stored."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from growd.store.entries.entry import is_photo_name
from growd.store.entries.photos import TYPES
from growd.store.points import Value, is_id
from growd_cloud.months import EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_DOCUMENT: Final = 64 * 1024
"""Bytes of a document without its attachments."""

MOST_ATTACHMENTS: Final = 8
MOST_REVISIONS: Final = 1_000
"""CouchDB keeps as many (`_revs_limit`)."""

_SPECIAL: Final = frozenset({"_id", "_rev", "_revisions", "_attachments"})
_REVISION: Final = re.compile(r"([1-9][0-9]{0,5})-([0-9a-f]{32})")
_HASH: Final = re.compile(r"[0-9a-f]{32}")
_NOT_EVENTS: Final = frozenset({None, "measured", "desired"})
_Word = Annotated[str, Meta(min_length=1, max_length=1_000)]


class RefusedDocumentError(Exception):
    """A document is not stored; the sentence says why."""


class _Measured(Struct):
    """The members of a point and of an event; others may follow."""

    environment: _Word
    variable: _Word
    value: Value
    timestamp: float
    is_manual: bool = False
    is_desired: bool = False
    category: _Word | None = None


def check_id(document_id: object, device: str) -> str:
    """The `_id`, which must be one of this device. Raises `RefusedDocumentError`."""
    if not isinstance(document_id, str) or not document_id.startswith(f"{device}:"):
        raise RefusedDocumentError(f"{device} writes points whose ids begin with {device}:")
    if not is_id(document_id):
        raise RefusedDocumentError(
            f"the id {document_id[:80]!r} must be <device>:<13 digits>-<10 hexadecimal digits>"
        )
    return document_id


def check_document(series: str, document: dict[str, Any], device: str) -> None:
    """Raises `RefusedDocumentError` unless this is a point, or an event, of this device.

    `_revisions` of a first revision is left out: it has no other.
    """
    check_id(document.get("_id"), device)
    if document.get("_deleted"):
        raise RefusedDocumentError("a point is not deleted")
    for name in document:
        if name.startswith("_") and name not in _SPECIAL:
            raise RefusedDocumentError(f"{name[:80]!r} must not be in a point")
    generation = check_revision(document)
    if series != EVENTS and generation > 1:
        raise RefusedDocumentError("a point is not changed")
    _check_members(series, document)
    if "_attachments" in document:
        _check_attachments(series, document["_attachments"])


def check_numbers(value: object, raw: bytes | bytearray | msgspec.Raw) -> None:
    """`ValueError` if `value`, of the JSON `raw`, has an integer beyond a double: CouchDB fails at it."""
    try:
        msgspec.msgpack.encode(value)  # fast; has integers of 64 bits only
    except OverflowError:
        json.loads(bytes(raw), parse_int=_finite)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is out of range")
    return number


def check_revision(document: Mapping[str, Any]) -> int:
    """The generation of `_rev`, 1 for a document that was never changed. Raises `RefusedDocumentError`."""
    revision = document.get("_rev")
    found = _REVISION.fullmatch(revision) if isinstance(revision, str) else None
    if found is None:
        raise RefusedDocumentError("_rev must be <number>-<32 hexadecimal digits>")
    generation = int(found[1])
    history = document.get("_revisions")
    if history is None:
        return generation
    ids = history.get("ids") if isinstance(history, dict) else None
    if (
        not isinstance(ids, list)
        or not 1 <= len(ids) <= min(generation, MOST_REVISIONS)
        or ids[0] != found[2]
        or history.get("start") != generation
        or not all(isinstance(each, str) and _HASH.fullmatch(each) for each in ids)
    ):
        raise RefusedDocumentError("_revisions must be the history of _rev")
    return generation


def _check_members(series: str, document: Mapping[str, Any]) -> None:
    try:
        found = msgspec.convert(document, _Measured)
    except msgspec.ValidationError as error:
        raise RefusedDocumentError(_in_words(error)) from None
    if series == EVENTS:
        if found.category in _NOT_EVENTS:
            raise RefusedDocumentError("category must be a text other than measured and desired")
    elif found.category is not None and found.category not in _NOT_EVENTS:
        raise RefusedDocumentError(f"category {found.category[:80]!r} belongs to events, not to points")
    elif "is_desired" not in document:
        raise RefusedDocumentError("is_desired: it is missing")


def _in_words(error: msgspec.ValidationError) -> str:
    """The sentence of msgspec with the name of the member first."""
    words, at, path = str(error).partition(" - at `")
    place = path.rstrip("`").removeprefix("$.")
    return f"{place}: {words}" if at and place else words


def _check_attachments(series: str, attachments: object) -> None:
    if series != EVENTS or not isinstance(attachments, dict):
        raise RefusedDocumentError("a point has no attachments")
    if len(attachments) > MOST_ATTACHMENTS:
        raise RefusedDocumentError(f"an event has at most {MOST_ATTACHMENTS} attachments")
    for name, each in attachments.items():
        if not is_photo_name(name):
            raise RefusedDocumentError(f"the attachment {name[:80]!r} is no photo of growd")
        if not isinstance(each, dict) or each.get("content_type") not in TYPES:
            raise RefusedDocumentError(f"content_type of {name} must be one of {', '.join(TYPES)}")
