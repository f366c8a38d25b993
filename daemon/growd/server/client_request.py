"""A request, with what growd has found out about it, and the headers that its own answers have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from aiohttp import hdrs, web

SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),  # does not bind requests that CORS lets read
)
"""Answers load nothing and run nothing; the page of the API has a style.

Without Strict-Transport-Security: self-signed certificates are usual here, and a browser that has seen that
header once lets nobody past a certificate that it can't check."""
NO_STORE: Final = "no-store"
READING: Final = frozenset({"GET", "HEAD"})  # methods that change nothing


@dataclass(frozen=True)
class AnswerHeaders:
    """Headers of answers, as pairs of name and value."""

    pairs: tuple[tuple[str, str], ...] = SECURITY_HEADERS

    @cached_property
    def lines(self) -> str:
        """The headers as an HTTP/1.1 head has them."""
        return "".join(f"{name}: {value}\r\n" for name, value in self.pairs)

    @cached_property
    def cors(self) -> tuple[tuple[bytes, bytes], ...]:
        """Those that say which pages may read the answer: answers of the database get them as well."""
        return tuple(
            (name.encode(), value.encode())
            for name, value in self.pairs
            if name == hdrs.VARY or name.startswith("Access-Control-")
        )


_USUAL: Final = AnswerHeaders()


class ClientRequest(web.BaseRequest):
    """A request whose answers, if growd gives them itself, have `answer_headers`, on streams and errors too.

    `client` is whom it counts for, None for one without limits of its own; `address` is where it comes from,
    behind proxies that are believed.
    """

    answer_headers: AnswerHeaders = _USUAL
    client: str | None = None
    address: str = ""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        headers = response.headers
        headers.extend(self.answer_headers.pairs)
        if hdrs.CACHE_CONTROL not in headers:
            headers[hdrs.CACHE_CONTROL] = NO_STORE


def cors_of(request: web.BaseRequest) -> tuple[tuple[bytes, bytes], ...]:
    """The headers with which an answer of the database says which pages may read it."""
    return request.answer_headers.cors if isinstance(request, ClientRequest) else ()


def client_of(request: web.BaseRequest) -> str | None:
    """Whom a request counts for, None for one without limits of its own."""
    return request.client if isinstance(request, ClientRequest) else None


def address_of(request: web.BaseRequest) -> str:
    """Where a request comes from, behind proxies that are believed; "" where there is no address."""
    return request.address if isinstance(request, ClientRequest) else request.remote or ""
