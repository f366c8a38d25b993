"""Attachments of documents, on their way to the database."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence


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


def related(document: Mapping[str, Any], attachments: Sequence[Attachment]) -> Content:
    """A document and its attachments as multipart/related (RFC 2387)."""
    boundary = secrets.token_hex(16)
    follow = {
        each.name: {"follows": True, "content_type": each.media, "length": each.size} for each in attachments
    }
    first = json.dumps({**document, "_attachments": follow}, allow_nan=False).encode()
    heads = [f"--{boundary}\r\nContent-Type: application/json\r\n\r\n".encode() + first]
    for each in attachments:
        head = f'\r\n--{boundary}\r\nContent-Disposition: attachment; filename="{each.name}"\r\n'
        head += f"Content-Type: {each.media}\r\nContent-Length: {each.size}\r\n\r\n"
        heads.append(head.encode())
    end = f"\r\n--{boundary}--".encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield heads[0]
        for head, each in zip(heads[1:], attachments, strict=True):
            yield head
            async for piece in each.pieces():
                yield piece
        yield end

    size = sum(map(len, heads)) + len(end) + sum(each.size for each in attachments)
    return Content(f'multipart/related; boundary="{boundary}"', size, pieces())
