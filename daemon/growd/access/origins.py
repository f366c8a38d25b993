"""Protection against DNS rebinding and pages of other sites.

Browsers send the page's origin (`Origin` or `Sec-Fetch-Site`) and the name they looked up (`Host`). Programs
send no origin and pass: they could send anything.
"""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from growd.bus.errors import shown
from growd.server.client_request import READING, SECURITY_HEADERS, AnswerHeaders
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from growd.config import Http
    from growd.server.client_request import ClientRequest

ANY_ORIGIN: Final = "*"
PREFLIGHT_S: Final = 600  # how long a browser may cache the answer to a preflight
_API_METHODS: Final = "GET, HEAD, POST, DELETE"
_DATABASE_METHODS: Final = "GET, HEAD, POST, PUT, DELETE, COPY"
# What clients of the API and of CouchDB send (https://docs.couchdb.org/en/stable/config/http.html#cors/headers).
_SENT: Final = (
    "Authorization, Content-Type, Last-Event-ID, If-Match, If-None-Match, Range, Destination, "
    "X-Requested-With, X-Couch-Full-Commit, X-CouchDB-WWW-Authenticate"
)
_ASKING: Final = READING | {"OPTIONS"}
_OWN_SITES: Final = frozenset({"same-origin", "none"})  # of Sec-Fetch-Site; none: the user typed the address
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]]+)(?::([0-9]{0,5}))?")
_AUTHORITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
_ORIGIN: Final = re.compile(r"(https?)://([^/?#@\s]+)")
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_MOST_KNOWN: Final = 256  # accepted hosts that are remembered


class OriginGuard:
    """Refuses requests under foreign host names and from pages of other sites."""

    def __init__(self, policy: Http) -> None:
        self.reconfigure(policy)

    def reconfigure(self, policy: Http) -> None:
        """Apply other names and origins from the next request on."""
        machine = socket.gethostname().lower().rstrip(".").partition(".")
        self._names = {"localhost", "".join(machine), machine[0], policy.host.lower()}
        self._names.update(host.lower().rstrip(".") for host in policy.hosts)
        # mDNS numbers machines that ask for the same name (RFC 6762, section 9)
        self._multicast = re.compile(rf"{re.escape(machine[0])}(-[0-9]+)?\.local")
        self._known: set[str] = set()
        vary = (("Vary", "Origin"),) if policy.origins else ()
        plain = (*SECURITY_HEADERS, *vary)
        self._plain = AnswerHeaders(plain)
        self._readable = AnswerHeaders((*plain, *_cors(ANY_ORIGIN)))
        self._allows_any = ANY_ORIGIN in policy.origins
        named = [_canonical(origin) for origin in policy.origins if origin != ANY_ORIGIN]
        self._named = {origin: AnswerHeaders((*plain, *_cors(origin))) for origin in named}

    def admit(self, request: ClientRequest, *, is_api: bool) -> web.Response | None:
        """Check a request and set the headers of its answer. Returns the answer to a preflight, else None.

        `ApiError`: 400 for an invalid host, 421 for a foreign one, 403 for a page of another site.
        """
        request.answer_headers = self._plain
        host = _host_of(request)
        if host is not None and host not in self._known:
            self._check_host(host)
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None:
            return self._admit_page(request, host, origin, is_api=is_api)
        if is_api or request.method not in _ASKING:
            _check_site(request)
        return None

    def _check_host(self, host: str) -> None:
        found = _HOST.fullmatch(host)
        if found is None:
            raise ApiError(400, "bad_request", f"{shown(host)} is not a valid host", closes=True)
        name = found[1].strip("[]").lower().removesuffix(".")
        if not (name in self._names or self._multicast.fullmatch(name) or _is_address(name)):
            sentence = f"{shown(name)} is not a name of this machine; if it should be, add it to [http] hosts"
            raise ApiError(421, "misdirected_request", sentence, closes=True)
        if len(self._known) < _MOST_KNOWN:
            self._known.add(host)

    def _admit_page(
        self, request: ClientRequest, host: str | None, origin: str, *, is_api: bool
    ) -> web.Response | None:
        if len(request.headers.getall(hdrs.ORIGIN)) > 1:
            raise ApiError(400, "bad_request", "there is more than one Origin")
        wanted = request.headers.get("Access-Control-Request-Method", "")
        is_preflight = request.method == "OPTIONS" and bool(wanted)
        if origin in self._named:
            request.answer_headers = self._named[origin]
            return _leave(request, _API_METHODS if is_api else _DATABASE_METHODS) if is_preflight else None
        if _is_own(request, host, origin):
            return None
        reads = (wanted if is_preflight else request.method) in READING
        if self._allows_any and reads and hdrs.UPGRADE not in request.headers:  # a websocket may write too
            request.answer_headers = self._readable
            return _leave(request, "GET, HEAD") if is_preflight else None
        if is_api or request.method not in _ASKING:
            raise _foreign(shown(origin))
        return None  # what may be read of the database, CouchDB's section `cors` says


def _host_of(request: ClientRequest) -> str | None:
    """The host of a request, None for an HTTP/1.0 client without Host."""
    if not request.raw_path.startswith("/") and (absolute := _AUTHORITY.match(request.raw_path)):
        return absolute[1]  # which replaces Host (RFC 9112, section 3.2.2)
    return request.headers.get(hdrs.HOST)  # aiohttp requires exactly one, except for HTTP/1.0


def _is_address(name: str) -> bool:
    """Whether a name is an IP address, which DNS cannot rebind."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_own(request: ClientRequest, host: str | None, origin: str) -> bool:
    """Whether a page comes from growd's own address; a proxy in front may add TLS."""
    found = _ORIGIN.fullmatch(origin)
    if found is None or host is None:
        return False
    scheme, authority = found.groups()
    if request.secure and scheme != "https":
        return False
    return authority.lower() == host.lower().removesuffix(_DEFAULT_PORTS[scheme])


def _check_site(request: ClientRequest) -> None:
    """Check Sec-Fetch-Site. Links from other sites are allowed, also into a new window."""
    headers = request.headers
    if headers.get("Sec-Fetch-Site", "none") in _OWN_SITES:
        return
    navigates = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    if not (navigates and request.method in READING):
        raise _foreign("another site")


def _foreign(whose: str) -> ApiError:
    sentence = f"pages of {whose} may not use this growd; to allow them, add their origin to [http] origins"
    return ApiError(403, "cross_site", sentence)


def _canonical(origin: str) -> str:
    """An origin in the form that browsers send."""
    scheme, _, authority = origin.lower().partition("://")
    return f"{scheme}://{authority.removesuffix(_DEFAULT_PORTS.get(scheme, ' '))}"


def _cors(origin: str) -> tuple[tuple[str, str], ...]:
    """CORS headers that let pages of an origin read; with credentials for named origins only."""
    allowed = (
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", "Allow, ETag, Location, Retry-After, X-Couch-Update-NewRev"),
    )
    return allowed if origin == ANY_ORIGIN else (*allowed, ("Access-Control-Allow-Credentials", "true"))


def _leave(request: ClientRequest, methods: str) -> web.Response:
    """The answer to a preflight (Fetch standard, "CORS-preflight request")."""
    headers = {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": _SENT,
        "Access-Control-Max-Age": str(PREFLIGHT_S),
    }
    if request.headers.get("Access-Control-Request-Private-Network") == "true" and "POST" in methods:
        headers["Access-Control-Allow-Private-Network"] = "true"  # for named pages on the internet
    return web.Response(status=204, headers=headers)
