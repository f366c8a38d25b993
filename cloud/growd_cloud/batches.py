"""Batches that replicators send, with limits of their numbers.

A replicator of CouchDB 3.5 sends at most 500 documents or 512 KiB, PouchDB 100 documents with their photos.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from growd.server.errors import ApiError
from growd_cloud.bodies import MOST_BODY
from growd_cloud.months import EVENTS

MOST_DOCUMENTS: Final = 2_000
MOST_IDS_BODY: Final = 1024 * 1024
"""Bytes of a question about revisions."""

MOST_POINTS_BODY: Final = 8 * 1024 * 1024
MOST_OF: Final = {EVENTS: MOST_BODY}
MOST_VALUES: Final = 500_000

Revision: TypeAlias = Annotated[str, Meta(pattern=r"\A[1-9][0-9]{0,8}-[0-9a-f]{1,64}\Z")]
Revisions: TypeAlias = Annotated[dict[str, list[Revision]], Meta(max_length=MOST_DOCUMENTS)]


class WantedRecipe(Struct, omit_defaults=True):
    """A revision that a device asks for."""

    id: Annotated[str, Meta(min_length=1, max_length=1_000)]
    rev: Revision | UnsetType = UNSET
    atts_since: list[Revision] | UnsetType | None = UNSET


class WantedRecipes(Struct):
    """The body of `_bulk_get`."""

    docs: Annotated[list[WantedRecipe], Meta(max_length=MOST_DOCUMENTS)]


class Named(Struct):
    """The id of a document."""

    id: str = msgspec.field(name="_id")


class _Batch(Struct):
    """The body of `_bulk_docs`. Each document is decoded for itself: one may be unreadable."""

    docs: Annotated[list[msgspec.Raw], Meta(max_length=MOST_DOCUMENTS)]
    new_edits: bool = True


def decoded(body: bytearray, kind: Any) -> Any:
    """A body of this type. `ApiError` 400."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "bad_request", f"the body is not what was expected: {error}") from None


def documents_of(body: bytearray) -> list[msgspec.Raw]:
    """The documents of `_bulk_docs`. `ApiError` 400 and 413."""
    if body.count(b",") > MOST_VALUES:  # before they take memory
        raise ApiError(413, "too_large", f"the batch has more than {MOST_VALUES} values")
    batch: _Batch = decoded(body, _Batch)
    if batch.new_edits:
        raise ApiError(400, "bad_request", "new_edits must be false, as replications send it")
    return batch.docs
