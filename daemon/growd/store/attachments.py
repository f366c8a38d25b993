"""Attachments of documents, on their way to the database."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence


class Attachment(NamedTuple):
    """An attachment to store: name, media type, bytes, and its content from the beginning."""

    name: str
    media: str
    size: int
    pieces: Callable[[], AsyncIterator[bytes]]


class Content(NamedTuple):
    """A body that is sent as it is read: media type, bytes, and its pieces."""

    media: str
    size: int
    pieces: AsyncIterator[bytes]


def related(document: Mapping[str, Any], contents: Sequence[tuple[int, AsyncIterable[bytes]]]) -> Content:
    """A document and the contents of its `_attachments`, in their order, as multipart/related (RFC 2387).

    docs.couchdb.org/en/3.5.x/api/document/common.html#creating-multiple-attachments
    """
    boundary = secrets.token_hex(16)
    first = json.dumps(document, allow_nan=False, separators=(",", ":"))
    head = f"--{boundary}\r\nContent-Type: application/json\r\n\r\n{first}".encode()
    between, end = f"\r\n--{boundary}\r\n\r\n".encode(), f"\r\n--{boundary}--".encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield head
        for _, content in contents:
            yield between
            async for piece in content:
                yield piece
        yield end

    size = len(head) + sum(len(between) + size for size, _ in contents) + len(end)
    return Content(f'multipart/related; boundary="{boundary}"', size, pieces())
