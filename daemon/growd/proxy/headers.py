"""What a gateway changes in the heads it hands on, and nothing else (RFC 9110 section 7.6)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from growd.proxy.errors import RequestRefusedError
from growd.proxy.framing import Headers, options
from growd.server.client_request import address_of

if TYPE_CHECKING:
    from aiohttp import web

    from growd.proxy.upstream import Upstream

# RFC 9110 section 7.6.1, and what belongs to one hop by its own section: proxy credentials (11.7), trailers
# (6.5.1), which are dropped with the chunks they came with.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# A client may not take these away by naming them in Connection: the message would mean something else.
_KEPT = frozenset({b"content-length", b"host"})

_ABSOLUTE = re.compile(rb"https?://(?:[^/?#@]*@)?([^/?#@]+)(.*)", re.IGNORECASE | re.DOTALL)

# Sent on in a form of our own.
_NOT_SENT_ON = HOP_BY_HOP | {b"host", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto"}

_PSEUDONYM = b"growd"  # in Via (RFC 9110 section 7.6.3), which a gateway has to send inwards
_LARGEST_CHAIN = 2  # of ourselves: a growd behind a growd; more is a `[couchdb] url` that names growd


class Outside:
    """How the client sees this server: what `Location` and X-Forwarded headers have to say."""

    def __init__(self, scheme: bytes, host: bytes) -> None:
        self.scheme = scheme
        self.host = host

    @property
    def origin(self) -> bytes:
        return self.scheme + b"://" + self.host


def request_head(
    request: web.BaseRequest,
    upstream: Upstream,
    *,
    instead: bytes | None = None,
    dropped: frozenset[bytes] = frozenset(),
) -> tuple[bytes, Outside]:
    """The head as the database gets it, and the address that the client used.

    With `instead` it asks for that target, in the name of the client; the headers `dropped` are left out.
    `RequestRefusedError` for what can't be handed on unambiguously.
    """
    headers = Headers(request.raw_headers)
    _check_framing(request, headers)
    _check_loop(headers)
    target, authority = _target(request)
    target = instead or target
    host = authority or _first(headers, b"host") or _local_address(request)
    outside = Outside(
        _outermost(headers, b"x-forwarded-proto") or request.scheme.encode(),
        _outermost(headers, b"x-forwarded-host") or host,
    )
    start = b" ".join((request.method.encode(), upstream.prefix * (target != b"*") + target, b"HTTP/1.1"))
    lines = [start, b"Host: " + host]
    lines += [name + b": " + value for name, value in _end_to_end(headers, _NOT_SENT_ON | dropped)]
    lines += _forwarded(request, headers, outside)
    lines.append(b"Via: " + b", ".join([*headers.values(b"via"), _hop(request)]))
    if b"transfer-encoding" in headers:
        lines.append(b"Transfer-Encoding: chunked")
    return b"\r\n".join(lines) + b"\r\n\r\n", outside


def answer_headers(headers: Headers, upstream: Upstream, outside: Outside) -> list[tuple[bytes, bytes]]:
    """The database's headers as the client gets them; framing and Connection are the caller's to add."""
    handed_on = _end_to_end(headers, HOP_BY_HOP)
    if b"location" not in headers:
        return handed_on
    return [
        (name, _outside_location(value, upstream, outside) if name.lower() == b"location" else value)
        for name, value in handed_on
    ]


def _end_to_end(headers: Headers, dropped: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
    """All but those `dropped`, and what Connection names besides."""
    return headers.without(dropped | (options(headers) - _KEPT))


def _check_framing(request: web.BaseRequest, headers: Headers) -> None:
    """Refuse what the database could read as another message than this one (RFC 9112 section 6.1).

    aiohttp's parser refuses most of it before; that is a setting of its C library, so it is held here too.
    """
    codings = [coding.strip().lower() for coding in headers.values(b"transfer-encoding")]
    if codings and b"content-length" in headers:
        raise RequestRefusedError(
            400, "bad_request", "Transfer-Encoding and Content-Length exclude each other."
        )
    if codings and request.version < (1, 1):
        raise RequestRefusedError(400, "bad_request", "HTTP/1.0 has no Transfer-Encoding.")
    if codings not in ([], [b"chunked"]):
        raise RequestRefusedError(501, "not_implemented", "The only transfer coding taken is chunked.")


def _check_loop(headers: Headers) -> None:
    if sum(hop.split()[1:2] == [_PSEUDONYM] for hop in headers.listed(b"via")) >= _LARGEST_CHAIN:
        raise RequestRefusedError(508, "loop_detected", "The address of the database leads back to growd.")


def _hop(request: web.BaseRequest) -> bytes:
    return b"%d.%d %b" % (*request.version, _PSEUDONYM)


def _target(request: web.BaseRequest) -> tuple[bytes, bytes | None]:
    """The target in origin form, byte for byte, and the authority if it came in absolute form.

    RFC 9112 section 3.2.2: with an absolute form, Host is to be replaced by what the target names.
    """
    if request.method == "CONNECT":
        raise RequestRefusedError(405, "method_not_allowed", "CONNECT is for proxies; this is none.")
    raw = request.raw_path.encode("utf-8", "surrogateescape")
    if raw.startswith(b"/") or (raw == b"*" and request.method == "OPTIONS"):
        return raw, None
    absolute = _ABSOLUTE.fullmatch(raw)
    if absolute is None:
        raise RequestRefusedError(400, "bad_request", "The request target must be a path.")
    authority, path = absolute.groups()
    return (path if path.startswith(b"/") else b"/" + path), authority


def _forwarded(request: web.BaseRequest, headers: Headers, outside: Outside) -> list[bytes]:
    """The X-Forwarded headers that CouchDB reads: For as the peer, Host and Proto for absolute addresses.

    See `absolute_uri` in CouchDB's chttpd. What a proxy further out said of the address stands.
    """
    peers = [*headers.values(b"x-forwarded-for")]
    peer = (address_of(request) or "unknown").encode()
    if headers.listed(b"x-forwarded-for")[-1:] != [peer]:
        # CouchDB takes the last for the peer, and locks logins out by it: so that is the client, and not a
        # proxy that is believed, behind which everybody would be one
        peers.append(peer)
    return [
        b"X-Forwarded-For: " + b", ".join(peers),
        b"X-Forwarded-Host: " + outside.host,
        b"X-Forwarded-Proto: " + outside.scheme,
    ]


def _local_address(request: web.BaseRequest) -> bytes:
    """For an HTTP/1.0 client that sent no Host: the address at which it reached us."""
    host, port, *_ = request.get_extra_info("sockname", ("localhost", 80))
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


def _first(headers: Headers, name: bytes) -> bytes:
    """The value of a header that stands once, empty if there is none."""
    found = headers.values(name)
    return found[0] if found else b""


def _outermost(headers: Headers, name: bytes) -> bytes:
    """What the outermost proxy said: the first member of a header that holds a list."""
    return _first(headers, name).split(b",")[0].strip()


def _outside_location(location: bytes, upstream: Upstream, outside: Outside) -> bytes:
    """`Location` with the inner address, if it has it, replaced by the outer one."""
    inner = upstream.origin
    rest = location[len(inner) :]
    if location.startswith(inner) and (not rest or rest[:1] in b"/?#"):
        return outside.origin + rest
    return location
