"""Reads a form of few parts from a body: multipart/form-data, RFC 7578.

The reader of aiohttp takes many lines and parts in one turn of the event loop: a hostile form holds the loop
for seconds. This one takes one piece in a turn, and nothing before the first part.
"""

from __future__ import annotations

from email.message import Message
from typing import TYPE_CHECKING, Final

from aiohttp import content_disposition_filename, parse_content_disposition

if TYPE_CHECKING:
    from aiohttp import StreamReader

_PIECE: Final = 64 * 1024
_HEADER_BYTES: Final = 8 * 1024
_EPILOGUE_BYTES: Final = 1024
_LONGEST_BOUNDARY: Final = 70  # RFC 2046, section 5.1.1
_END_OF_HEADERS: Final = b"\r\n\r\n"


class FormReader:
    """The parts of a form, one after the other. All methods raise ValueError if the form is malformed."""

    def __init__(self, content_type: str, content: StreamReader) -> None:
        self._mark = b"\r\n--" + _boundary(content_type)
        self._content = content
        self._data = bytearray(b"\r\n")  # so that the first mark is like the others

    async def start(self) -> None:
        """Read up to the first part."""
        while (found := self._data.find(self._mark)) < 0 and len(self._data) < len(self._mark) + 2:
            await self._read_more()
        if found not in {0, 2}:  # 2: after an empty line
            raise ValueError("the form does not begin with its boundary")
        del self._data[: found + len(self._mark)]

    async def next(self) -> str | None:
        """The name of the next part, "" if it has none; None after the last. The part before was read."""
        while len(self._data) < 2:  # noqa: PLR2004  the two characters after a mark
            await self._read_more()
        if self._data.startswith(b"--"):
            await self._read_epilogue()
            return None
        while (end := self._data.find(_END_OF_HEADERS)) < 0 and len(self._data) < _HEADER_BYTES:
            await self._read_more()
        if not self._data.startswith(b"\r\n") or not 0 <= end <= _HEADER_BYTES:
            raise ValueError("the part has no end of its headers")
        name = _name(bytes(self._data[:end]))
        del self._data[: end + len(_END_OF_HEADERS)]
        return name

    async def piece(self) -> bytes:
        """The next bytes of the part; empty at its end."""
        while (end := self._data.find(self._mark)) < 0 and len(self._data) < len(self._mark):
            await self._read_more()
        if end == 0:
            del self._data[: len(self._mark)]
            return b""
        size = end if end > 0 else len(self._data) - len(self._mark) + 1
        found = bytes(self._data[:size])
        del self._data[:size]
        return found

    async def _read_more(self) -> None:
        piece = await self._content.read(_PIECE)
        if not piece:
            raise ValueError("the form ends before its last boundary")
        self._data += piece

    async def _read_epilogue(self) -> None:
        size = len(self._data)
        while size <= _EPILOGUE_BYTES and (piece := await self._content.read(_PIECE)):
            size += len(piece)
        if size > _EPILOGUE_BYTES:
            raise ValueError("bytes follow the last boundary")


def _boundary(content_type: str) -> bytes:
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_boundary("")
    if not 1 <= len(boundary) <= _LONGEST_BOUNDARY or not boundary.isascii():
        raise ValueError("the form has no boundary")
    return boundary.encode()


def _name(headers: bytes) -> str:
    for line in headers.decode(errors="replace").split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            _, parameters = parse_content_disposition(value.strip())
            return content_disposition_filename(parameters, "name") or ""
    return ""
