"""HTTP/1.1 answers taken apart without touching a byte (RFC 9112): no sockets, no event loop.

aiohttp's client normalises what a gateway has to hand on as it came: an empty query, bytes beyond ASCII in a
target or a header, header order. Its server side gives the bytes of a request whole; this is the counterpart
for answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from growd.proxy.errors import UpstreamBrokenError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEAD_LIMIT = 64 * 1024  # bytes of a status line with its headers; CouchDB's own stay below 2 kB
LINE_LIMIT = 4 * 1024  # bytes of a chunk's size line, or of one trailer line

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: ([^\r\n\0]*))?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\0]*)?")
_NO_BODY = frozenset({204, 304})


class Headers:
    """The headers of a message: names and values as they came, in their order, and found by name.

    The names to find them by are in lower case.
    """

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._all = [(name.lower(), name, value) for name, value in headers]
        self._values: dict[bytes, list[bytes]] = {}
        for key, _, value in self._all:
            self._values.setdefault(key, []).append(value)

    def __contains__(self, name: bytes) -> bool:
        return name in self._values

    def values(self, name: bytes) -> Sequence[bytes]:
        """The values of a header, in their order."""
        return self._values.get(name, ())

    def listed(self, name: bytes) -> list[bytes]:
        """The members of a header that holds a list."""
        joined = b",".join(self.values(name))
        return [member.strip() for member in joined.split(b",")] if joined else []

    def without(self, names: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
        """Names and values of all but these."""
        return [(name, value) for key, name, value in self._all if key not in names]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """Status line and headers of an answer."""

    minor_version: int
    status: int
    reason: bytes
    headers: Headers

    @property
    def interim(self) -> bool:
        """Another head follows (RFC 9110 section 15.2)."""
        return self.status < 200  # noqa: PLR2004  1xx

    @property
    def persistent(self) -> bool:
        """The connection may carry another request (RFC 9112 section 9.3)."""
        return self.minor_version == 1 and b"close" not in options(self.headers)


def parse_head(block: bytes) -> AnswerHead:
    """Take a head apart; `block` ends before the empty line. `UpstreamBrokenError` if it is none."""
    first, *rest = block.split(b"\r\n")
    status_line = _STATUS_LINE.fullmatch(first)
    if status_line is None:
        raise UpstreamBrokenError(f"the answer began with {first[:80]!r}, which is no HTTP/1.1 status line")
    minor, status, reason = status_line.groups()
    return AnswerHead(int(minor), int(status), reason or b"", Headers(map(_field, rest)))


def options(headers: Headers) -> set[bytes]:
    """What Connection says, in lower case."""
    return {option.lower() for option in headers.listed(b"connection")}


class Body(Protocol):
    """Finds the end of an answer's body in the bytes of a connection."""

    complete: bool

    def take(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Split into pieces of the body and what lies beyond its end."""

    def end(self) -> None:
        """The connection was closed. `UpstreamBrokenError` if the body was not complete."""


def body_of(head: AnswerHead, method: str) -> Body:
    """How the answer's body is delimited (RFC 9112 section 6.3). `UpstreamBrokenError` if that is unclear."""
    if method == "HEAD" or head.status in _NO_BODY:
        return SizedBody(0)
    codings = head.headers.values(b"transfer-encoding")
    lengths = head.headers.values(b"content-length")
    if codings:
        # Both together is how answers are smuggled; another coding could not be handed on.
        if lengths or [coding.strip().lower() for coding in codings] != [b"chunked"]:
            raise UpstreamBrokenError("the answer's length is not clear from its headers")
        return ChunkedBody()
    if lengths:
        if len(lengths) > 1 or re.fullmatch(rb"\d{1,18}", lengths[0]) is None:
            raise UpstreamBrokenError(f"the answer's Content-Length is {b', '.join(lengths)!r}")
        return SizedBody(int(lengths[0]))
    return UnsizedBody()


class SizedBody:
    """A body of known length in bytes."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.complete = length == 0

    def take(self, data: bytes) -> tuple[list[bytes], bytes]:
        piece, beyond = data[: self._left], data[self._left :]
        self._left -= len(piece)
        self.complete = self._left == 0
        return [piece], beyond

    def end(self) -> None:
        if not self.complete:
            raise UpstreamBrokenError(f"the answer broke off {self._left} bytes before its end")


class UnsizedBody:
    """A body that ends with its connection."""

    complete = False

    def take(self, data: bytes) -> tuple[list[bytes], bytes]:
        return [data], b""

    def end(self) -> None:
        self.complete = True


class ChunkedBody:
    """A body in chunks (RFC 9112 section 7.1). Extensions and trailers are dropped, as a proxy may."""

    def __init__(self) -> None:
        self.complete = False
        self._left = 0  # bytes of the present chunk still to come
        self._line = b""  # the beginning of a line whose end did not arrive yet
        self._take_line = self._size_line

    def take(self, data: bytes) -> tuple[list[bytes], bytes]:
        data, self._line = self._line + data, b""
        pieces = []
        position = 0
        while position < len(data) and not self.complete:
            if self._left:
                piece = data[position : position + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                position += len(piece)
            elif (end := data.find(b"\r\n", position, position + LINE_LIMIT)) >= 0:
                self._take_line(data[position:end])
                position = end + 2
            else:
                self._keep_line(data[position:])
                position = len(data)
        return pieces, data[position:]

    def end(self) -> None:
        if not self.complete:
            raise UpstreamBrokenError("the answer broke off before its last chunk")

    def _keep_line(self, beginning: bytes) -> None:
        if len(beginning) >= LINE_LIMIT:
            raise UpstreamBrokenError(f"a line between chunks is longer than {LINE_LIMIT} bytes")
        self._line = beginning

    def _size_line(self, line: bytes) -> None:
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            raise UpstreamBrokenError(f"{line[:80]!r} is no size of a chunk")
        self._left = int(size[1], 16)
        self._take_line = self._after_data if self._left else self._trailer_line

    def _after_data(self, line: bytes) -> None:
        if line:
            raise UpstreamBrokenError("a chunk is longer than its size says")
        self._take_line = self._size_line

    def _trailer_line(self, line: bytes) -> None:
        self.complete = not line


def _field(line: bytes) -> tuple[bytes, bytes]:
    field = _FIELD.fullmatch(line)
    if field is None:
        # a folded line (RFC 9112 section 5.2) falls here too: no database sends one
        raise UpstreamBrokenError(f"the answer holds {line[:80]!r}, which is no header")
    return field[1], field[2].rstrip(b" \t")
