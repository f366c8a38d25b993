"""Bodies of requests, read within limits of size and time, and the batches that replicators send in them.

A replicator of CouchDB 3.5 sends at most 500 documents or 512 KiB, PouchDB 100 documents with their photos.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import UNSET, Meta, Struct, UnsetType

from growd.server.client_request import send_continue
from growd.server.errors import ApiError
from growd_cloud.months import EVENTS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

MOST_BODY: Final = 48 * 1024 * 1024
"""Bytes of a body: the photos of a journal entry (32 MiB) in base64. All of one account have as many."""

MOST_HELD: Final = 192 * 1024 * 1024
"""Bytes of all bodies together."""

KEPT_FOR_SMALL: Final = 48 * 1024 * 1024
"""Bytes of those that only bodies up to `SMALL` take: they still come in while there are many large ones."""

SMALL: Final = 1024 * 1024
STALL_S: Final = 30.0  # without `_PIECE`, or the rest of the body
_PIECE: Final = 64 * 1024
WHOLE_S: Final = 300.0
MOST_DOCUMENTS: Final = 2_000
MOST_IDS_BODY: Final = 1024 * 1024
"""Bytes of a question about revisions."""
MOST_POINTS_BODY: Final = 8 * 1024 * 1024
MOST_OF: Final = {EVENTS: MOST_BODY}
MOST_VALUES: Final = 500_000
Revision: TypeAlias = Annotated[str, Meta(pattern=r"\A[1-9][0-9]{0,8}-[0-9a-f]{1,64}\Z")]
Revisions: TypeAlias = Annotated[dict[str, list[Revision]], Meta(max_length=MOST_DOCUMENTS)]


class Bodies:
    """Reads bodies into memory. All together have at most `MOST_HELD` bytes while they are held."""

    def __init__(self) -> None:
        self.held = 0
        self.held_of: Counter[str] = Counter()
        """Of each account; those without one are counted under an empty name."""

    @asynccontextmanager
    async def body(
        self, request: web.BaseRequest, most: int = MOST_BODY, within_s: float = WHOLE_S, account: str = ""
    ) -> AsyncGenerator[bytearray]:
        """The body, held until the block ends. `ApiError` 400, 408, 413, 415 and 503.

        With an `account` it counts as one of that account.
        """
        check_encoding(request)
        _check(request.content_length or 0, most)
        send_continue(request)
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(within_s):
                    async for piece in pieces(request):
                        _check(len(body) + len(piece), most)
                        self._check_room(account, len(piece), len(body) + len(piece))
                        self.held += len(piece)
                        self.held_of[account] += len(piece)
                        body += piece
            except TimeoutError:
                raise too_slow(within_s) from None
            yield body
        finally:
            self.held -= len(body)
            self.held_of[account] -= len(body)
            if not self.held_of[account]:
                del self.held_of[account]

    def _check_room(self, account: str, more: int, size: int) -> None:
        """For `more` bytes of a body that then has `size`."""
        most = MOST_HELD if size <= SMALL else MOST_HELD - KEPT_FOR_SMALL
        if self.held + more > most:
            raise _busy(f"the bodies of all devices are larger than {most} bytes together; try again")
        if account and self.held_of[account] + more > MOST_BODY:
            raise _busy(f"the bodies of {account} are larger than {MOST_BODY} bytes together; try again")


async def pieces(request: web.BaseRequest) -> AsyncGenerator[bytearray]:
    """The pieces of a body. `ApiError` 408 if `_PIECE` bytes take `STALL_S`, 400 if it is incomplete."""
    is_whole = False
    while not is_whole:
        piece = bytearray()
        try:
            async with asyncio.timeout(STALL_S):
                while len(piece) < _PIECE and not is_whole:
                    part = await request.content.readany()
                    piece += part
                    is_whole = not part
        except TimeoutError:
            raise too_slow(STALL_S) from None
        except (web.RequestPayloadError, HttpProcessingError, ConnectionError, RuntimeError):
            raise ApiError(400, "incomplete_body", "the body is incomplete", closes=True) from None
        yield piece


def _busy(sentence: str) -> ApiError:
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "busy", sentence, {"Retry-After": "5"}, closes=True)


def _check(size: int, most: int) -> None:
    if size > most:
        raise ApiError(413, "too_large", f"the body is larger than {most} bytes", closes=True)


def check_encoding(request: web.BaseRequest) -> None:
    """`ApiError` 415 for a compressed body."""
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").strip().lower() != "identity":
        raise ApiError(415, "unsupported_encoding", "the body must not be compressed", closes=True)


def too_slow(seconds: float) -> ApiError:
    """The refusal of a body of which nothing, or not all, came in time."""
    return ApiError(408, "body_timeout", f"the body did not arrive within {seconds:g} s", closes=True)


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
