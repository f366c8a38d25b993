"""Events with photos, which a replication sends as multipart/related, one at a time."""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import BodyPartReader, MultipartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from growd.server.client_request import send_continue
from growd.server.errors import ApiError
from growd.store.errors import CouchError, CouchRefusedError
from growd_cloud.bodies import STALL_S, WHOLE_S, check_encoding, too_slow
from growd_cloud.checks import MOST_DOCUMENT, RefusedDocumentError
from growd_cloud.months import EVENTS
from growd_cloud.point_target import decoded_document, is_about_content

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.server.client_request import ClientRequest
    from growd.store.couch import Document
    from growd_cloud.point_target import PointTarget

MOST_UPLOAD: Final = 40 * 1024 * 1024
"""Bytes: the photos of a journal entry have 32 MiB."""

_CHUNK: Final = 64 * 1024
_BROKEN: Final = (web.RequestPayloadError, HttpProcessingError, ConnectionError, RuntimeError)


async def store_upload(
    request: ClientRequest, target: PointTarget, device: str, document_id: str
) -> Document:
    """Check the document, and pass it on with its photos as they come. Raises `ApiError` and `CouchError`."""
    if (request.content_length or 0) > MOST_UPLOAD:
        raise _too_large()
    check_encoding(request)
    send_continue(request)
    incoming = _Incoming(request)
    try:
        async with asyncio.timeout(WHOLE_S):
            document = await incoming.document()
    except TimeoutError:
        raise too_slow(WHOLE_S) from None
    if document.get("_id") != document_id:
        raise _wrong("the document has another id than the request")
    sizes = _sizes_of_photos(document)
    if not sizes:  # CouchDB waits without end for parts
        return await _store_alone(incoming, target, device, document)
    try:
        database = await target.admit(EVENTS, device, document)
    except RefusedDocumentError as error:
        target.refused += 1
        raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", str(error), closes=True) from None
    outgoing = _Outgoing(document, sizes, incoming)
    try:
        return await target.put(database, document_id, outgoing.headers, outgoing.pieces())
    except CouchError as error:
        if outgoing.fault is not None:  # it ended the request to CouchDB
            raise outgoing.fault from None
        if not isinstance(error, CouchRefusedError) or not is_about_content(error):
            raise
        if error.error == "missing_stub":  # CouchDB's replicator sends all photos then
            raise ApiError(HTTPStatus.PRECONDITION_FAILED, error.error, error.reason) from None
        raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", f"{error.error}: {error.reason}") from None


async def _store_alone(incoming: _Incoming, target: PointTarget, device: str, document: Document) -> Document:
    await incoming.check_end()
    refused = await target.store(EVENTS, device, [msgspec.json.encode(document)])
    if refused:
        raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", refused[0]["reason"], closes=True)
    return {"ok": True, "id": document["_id"], "rev": document["_rev"]}


class _Incoming:
    """The parts of a request: the document, then its photos."""

    def __init__(self, request: ClientRequest) -> None:
        try:
            self._reader = MultipartReader(request.headers, request.content)
        except ValueError as error:
            raise _wrong(f"the body is not multipart/related: {error}") from None

    async def document(self) -> Document:
        """The first part."""
        raw = bytearray()
        async for chunk in self.part():
            raw += chunk
            if len(raw) > MOST_DOCUMENT + _CHUNK:
                raise _too_large()
        try:
            return decoded_document(bytes(raw))
        except RefusedDocumentError as error:
            raise _wrong(str(error)) from None

    async def part(self) -> AsyncIterator[bytes]:
        """The next part, which must be there."""
        part = await self._within(self._reader.next())
        if not isinstance(part, BodyPartReader):
            raise _wrong("a part of the body is missing")
        while chunk := await self._within(part.read_chunk(_CHUNK)):
            yield chunk

    async def check_end(self) -> None:
        """There must be no further part."""
        if await self._within(self._reader.next()) is not None:
            raise _wrong("the body has more parts than the document has photos")

    async def _within(self, step: Any) -> Any:
        try:
            async with asyncio.timeout(STALL_S):
                return await step
        except TimeoutError:
            raise too_slow(STALL_S) from None
        except (*_BROKEN, ValueError):
            raise _wrong("the body is incomplete, or not multipart/related") from None


class _Outgoing:
    """The request to CouchDB, made again of what was checked: CouchDB splits it in no other way."""

    def __init__(self, document: Document, sizes: list[int], incoming: _Incoming) -> None:
        self.fault: ApiError | None = None
        """Why the body ended early."""
        self._incoming = incoming
        boundary = secrets.token_hex(16)  # the device does not know it
        self._between = f"\r\n--{boundary}\r\n\r\n".encode()
        self._end = f"\r\n--{boundary}--".encode()
        self._head = f"--{boundary}\r\nContent-Type: application/json\r\n\r\n".encode()
        self._head += msgspec.json.encode(document)
        self._sizes = sizes
        whole = len(self._head) + len(self._end) + sum(len(self._between) + size for size in self._sizes)
        self.headers = {
            "Content-Type": f'multipart/related; boundary="{boundary}"',
            "Content-Length": str(whole),
        }

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body. It ends early, which CouchDB refuses, if a part has another size than expected."""
        try:
            yield self._head
            for size in self._sizes:
                yield self._between
                rest = size
                async for chunk in self._incoming.part():
                    rest -= len(chunk)
                    if rest < 0:
                        break
                    yield chunk
                if rest:
                    raise _wrong(f"a photo does not have the {size} bytes that the document says")
            await self._incoming.check_end()
            yield self._end
        except ApiError as error:
            self.fault = error
            raise


def _sizes_of_photos(document: Document) -> list[int]:
    """Bytes of the photos that follow the document, in their order. Raises `ApiError`."""
    sizes = []
    for name, each in _attachments_of(document).items():
        if isinstance(each, dict) and each.get("follows") is True:
            size = each.get("length")
            if type(size) is not int or size < 0 or "encoding" in each:
                raise _wrong(f"length of {name} must be its number of bytes, without an encoding")
            sizes.append(size)
    if sum(sizes) > MOST_UPLOAD:
        raise _too_large()
    return sizes


def _attachments_of(document: Document) -> dict[str, Any]:
    attachments = document.get("_attachments")  # not checked yet
    return attachments if isinstance(attachments, dict) else {}


def _wrong(sentence: str) -> ApiError:
    return ApiError(400, "bad_request", sentence, closes=True)


def _too_large() -> ApiError:
    return ApiError(
        413, "too_large", f"an event with its photos is larger than {MOST_UPLOAD} bytes", closes=True
    )
