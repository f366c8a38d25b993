"""What the gateway changes in the headers of requests and answers (RFC 9110, section 7.6)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import hdrs
from multidict import CIMultiDict

from growd.server.client_request import address_of, is_from_proxy
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import ClientResponse, web
    from multidict import CIMultiDictProxy

    Headers = CIMultiDictProxy[str] | CIMultiDict[str]

# RFC 9110, section 7.6.1, and by their own sections: proxy credentials (11.7) and trailers (6.5.1).
HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# Connection may not name these: without them the message would mean something else.
_ALWAYS_SENT: Final = frozenset({"content-length", "host"})
# growd answers Expect itself: aiohttp can't read CouchDB's "100 Continue", which has Connection: close.
_REWRITTEN: Final = frozenset(
    {"expect", "host", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}
)
_ABSOLUTE: Final = re.compile(r"https?://(?:[^/?#@]*@)?([^/?#@]+)(.*)", re.IGNORECASE | re.DOTALL)
_PSEUDONYM: Final = "growd"  # in Via (RFC 9110, section 7.6.3)
_LARGEST_CHAIN: Final = 2  # a growd behind a growd; a third means that `[couchdb] url` names growd itself


@lru_cache(maxsize=8)
def origin_of(base: str) -> str:
    """Scheme, host, port and path prefix of the database, without credentials and a final slash.

    `base` is like "http://127.0.0.1:5985", perhaps with a path. `ValueError` if it is no such address.
    """
    parts = urlsplit(base)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"the database's address must be http://host:port, not {base!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"


class Outside(msgspec.Struct, frozen=True):
    """The scheme and host under which the client reached growd."""

    scheme: str
    host: str

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"


def request_target(request: web.BaseRequest) -> str:
    """Path and query as the client sent them. `ApiError` for a target that is neither path nor URL."""
    if request.method == hdrs.METH_CONNECT:
        raise ApiError(405, "method_not_allowed", "CONNECT is not supported; growd is not a forward proxy")
    target = request.raw_path
    if target.startswith("/"):
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise ApiError(400, "bad_request", "the request target must be a path")
    path = absolute[2]
    return path if path.startswith("/") else f"/{path}"


def request_headers(
    request: web.BaseRequest, dropped: frozenset[str] = frozenset()
) -> tuple[CIMultiDict[str], Outside]:
    """The headers for the database, without those `dropped`, and the address that the client used."""
    given = request.headers
    _check_loop(given)
    absolute = _ABSOLUTE.fullmatch(request.raw_path)  # replaces Host (RFC 9112, section 3.2.2)
    host = absolute[1] if absolute else given.get(hdrs.HOST) or _local_address(request)
    outside = Outside(request.scheme, host)
    if is_from_proxy(request):
        outside = Outside(
            _outermost(given, hdrs.X_FORWARDED_PROTO) or request.scheme,
            _outermost(given, hdrs.X_FORWARDED_HOST) or host,
        )
    headers = CIMultiDict({hdrs.HOST: host})
    headers.extend(_end_to_end(given, HOP_BY_HOP | _REWRITTEN | dropped))
    headers[hdrs.X_FORWARDED_FOR] = _forwarded_for(request)
    headers[hdrs.X_FORWARDED_HOST] = outside.host
    headers[hdrs.X_FORWARDED_PROTO] = outside.scheme
    hop = f"{request.version.major}.{request.version.minor} {_PSEUDONYM}"
    headers[hdrs.VIA] = ", ".join([*given.getall(hdrs.VIA, ()), hop])
    return headers, outside


def answer_headers(answer: ClientResponse, upstream: str, outside: Outside) -> CIMultiDict[str]:
    """The database's headers for the client. Those of one hop are left out; Location names growd."""
    given = CIMultiDict(  # `answer.headers` has names in another case than CouchDB
        (name.decode(errors="surrogateescape"), value.decode(errors="surrogateescape"))
        for name, value in answer.raw_headers
    )
    headers = _end_to_end(given, HOP_BY_HOP)
    location = headers.get(hdrs.LOCATION, "")
    rest = location.removeprefix(upstream)
    if rest != location and (not rest or rest[0] in "/?#"):
        headers[hdrs.LOCATION] = outside.origin + rest
    return headers


def _end_to_end(headers: Headers, dropped: frozenset[str]) -> CIMultiDict[str]:
    """All but those `dropped` and those that Connection names."""
    named = {name.lower() for name in _listed(headers, hdrs.CONNECTION)} - _ALWAYS_SENT
    dropped |= named
    first: dict[str, str] = {}  # aiohttp takes "X-A" and "x-a" for two headers, and sends the last only
    return CIMultiDict(
        (first.setdefault(name.lower(), name), value)
        for name, value in headers.items()
        if name.lower() not in dropped
    )


def _check_loop(headers: Headers) -> None:
    if sum(hop.split()[1:2] == [_PSEUDONYM] for hop in _listed(headers, hdrs.VIA)) >= _LARGEST_CHAIN:
        raise ApiError(508, "loop_detected", "[couchdb] url leads back to growd")


def _forwarded_for(request: web.BaseRequest) -> str:
    """The client last: CouchDB takes the last address for the peer, and counts failed logins by it."""
    peer = address_of(request) or "unknown"
    given = request.headers.getall(hdrs.X_FORWARDED_FOR, ())
    is_there = _listed(request.headers, hdrs.X_FORWARDED_FOR)[-1:] == [peer]
    return ", ".join([*given] if is_there else [*given, peer])


def _local_address(request: web.BaseRequest) -> str:
    """The address that an HTTP/1.0 client without Host has reached."""
    host, port, *_ = request.get_extra_info("sockname", ("localhost", 80))
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listed(headers: Headers, name: str) -> list[str]:
    """The members of a header that holds a list."""
    joined = ",".join(headers.getall(name, ()))
    return [member.strip() for member in joined.split(",")] if joined else []


def _outermost(headers: Mapping[str, str], name: str) -> str:
    """What the outermost proxy sent: the first member of a header that holds a list."""
    return headers.get(name, "").partition(",")[0].strip()
