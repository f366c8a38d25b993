"""Requests with their client, and the headers of growd's own answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11

from growd.bus.errors import shown
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from multidict import CIMultiDict

SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),  # does not bind requests that CORS lets read
)
"""Answers load nothing and run nothing; pages have a policy of their own.

There is no Strict-Transport-Security: with self-signed certificates, which are common here, it would lock
users out of growd."""
NO_STORE: Final = "no-store"
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
READING: Final = frozenset({"GET", "HEAD"})  # methods that change nothing
MAX_LENGTH_DIGITS: Final = 20  # of 2**64; Python parses no more than 4300 digits


@dataclass(frozen=True)
class AnswerHeaders:
    """Headers of answers: names and values."""

    pairs: tuple[tuple[str, str], ...] = SECURITY_HEADERS

    @cached_property
    def lines(self) -> str:
        """The headers as an HTTP/1.1 head has them."""
        return "".join(f"{name}: {value}\r\n" for name, value in self.pairs)

    @cached_property
    def cors(self) -> tuple[tuple[str, str], ...]:
        """The headers that say which pages may read the answer; answers of the database get them too."""
        return tuple(
            (name, value)
            for name, value in self.pairs
            if name == hdrs.VARY or name.startswith("Access-Control-")
        )


_USUAL: Final = AnswerHeaders()


class ClientRequest(web.BaseRequest):
    """A request with the client it counts for.

    `client` is None for one without limits of its own. `address` is where the request comes from, behind
    trusted proxies; `is_from_proxy` says whether one of them sent it. growd's own answers carry
    `answer_headers`.
    """

    answer_headers: AnswerHeaders = _USUAL
    client: str | None = None
    address: str = ""
    is_from_proxy: bool = False


class RequestHandler(Protocol):
    """Answers requests, itself or through another handler."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse: ...


def check_framing(request: web.BaseRequest) -> None:
    """Refuse a length with too many digits (400), and transfer codings besides chunked (501).

    aiohttp does not decode other codings (RFC 9112, section 6.1).
    """
    headers = request.headers
    if len(headers.get(hdrs.CONTENT_LENGTH, "")) > MAX_LENGTH_DIGITS:
        sentence = f"Content-Length has more than {MAX_LENGTH_DIGITS} digits"
        raise ApiError(400, "bad_request", sentence, closes=True)
    if hdrs.TRANSFER_ENCODING in headers:
        coding = ",".join(headers.getall(hdrs.TRANSFER_ENCODING)).strip()
        if coding.lower() != "chunked":
            sentence = f"the transfer coding {shown(coding)} is not supported; it must be chunked"
            raise ApiError(501, "not_implemented", sentence, closes=True)


def add_own_headers(request: web.BaseRequest, headers: CIMultiDict[str]) -> None:
    """Add the headers of growd's own answers, unless an answer has its own content security policy."""
    if isinstance(request, ClientRequest):
        has_policy = "Content-Security-Policy" in headers
        for name, value in request.answer_headers.pairs:
            if not (has_policy and name == "Content-Security-Policy"):
                headers.add(name, value)
    headers.setdefault(hdrs.CACHE_CONTROL, NO_STORE)


def add_cors(request: web.BaseRequest, headers: CIMultiDict[str]) -> None:
    """Say which pages may read an answer of the database, unless CouchDB has said it."""
    if isinstance(request, ClientRequest) and "Access-Control-Allow-Origin" not in headers:
        headers.extend(request.answer_headers.cors)


def split_target(target: str) -> tuple[str, str]:
    """Path and query of a request target as it came; absolute form too (RFC 9112, section 3.2.2)."""
    if not target.startswith("/") and (absolute := _ABSOLUTE.match(target)):
        target = target[absolute.end() :]
        if not target.startswith("/"):
            target = "/" + target
    path, _, query = target.partition("?")
    return path, query


def send_continue(request: web.BaseRequest) -> None:
    """Let a client send its body that waits for 100 Continue (RFC 9110, section 10.1.1)."""
    waits = request.headers.get(hdrs.EXPECT, "").strip().lower() == "100-continue"
    if waits and request.version >= HttpVersion11 and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def client_of(request: web.BaseRequest) -> str | None:
    """The client of a request, None for one without limits of its own."""
    return request.client if isinstance(request, ClientRequest) else None


def address_of(request: web.BaseRequest) -> str:
    """Where a request comes from, behind trusted proxies; "" without an address."""
    return request.address if isinstance(request, ClientRequest) else request.remote or ""


def is_from_proxy(request: web.BaseRequest) -> bool:
    """Whether a trusted proxy or a program on this machine sent a request."""
    return isinstance(request, ClientRequest) and request.is_from_proxy


def weights(header: str) -> dict[str, float]:
    """The members of a header with their weights, 0 to 1; an invalid weight is 0."""
    return dict(_member(part) for part in header.split(",") if part.strip())


def prefers_html(request: web.BaseRequest) -> bool:
    """Whether a request names HTML, as browsers do, and not JSON with at least the same weight."""
    ranges = weights(request.headers.get(hdrs.ACCEPT, ""))
    return ranges.get("text/html", 0.0) > ranges.get("application/json", 0.0)


def _member(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
    try:
        return name, min(max(float(weight), 0.0), 1.0)
    except ValueError:
        return name, 0.0
