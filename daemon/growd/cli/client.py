"""The HTTP client of the command line: address, login, requests, and errors as sentences.

It is blocking, and built on the standard library so that a command starts fast.
"""

from __future__ import annotations

import base64
import http.client
import socket
import time
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec

from growd.config.web import is_host, without_login

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from growd.config import Http
    from growd.config.tls import Tls

T = TypeVar("T")

REFUSED: Final = 1
"""Exit status if the daemon refuses the request, or the configuration is invalid."""
WRONG_USAGE: Final = 2
"""Exit status for a usage error (click's)."""
NOT_REACHED: Final = 3
"""Exit status if no daemon answers, or another program does."""
NOT_ALLOWED: Final = 4
"""Exit status if the login is missing or wrong (HTTP 401), or lacks the right (403)."""
TIMEOUT_S: Final = 10.0
API: Final = ("api", "0.0.1")
_STREAM_BYTES: Final = 65_536
_LINE_BYTES: Final = 16 * 1024 * 1024  # limit of one message
_ANSWER_BYTES: Final = 64 * 1024 * 1024  # limit of one answer
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where to reach a daemon that listens there
_PEM_END: Final = "-----END CERTIFICATE-----"
_PORTS: Final = {"http": 80, "https": 443}
# A stream may be silent for hours; TCP keepalive detects a daemon without power within 30 s.
_KEEP_ALIVE: Final = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class ClientError(Exception):
    """A request failed; the message says where and why."""

    exit_status: int = REFUSED


class UsageError(ClientError):
    """An invalid address, login or certificate on the command line."""

    exit_status = WRONG_USAGE


class NotReachedError(ClientError):
    """No answer, an answer too late, or not from growd."""

    exit_status = NOT_REACHED


class DaemonRefusedError(ClientError):
    """The daemon's error message, with its HTTP status and error code."""

    def __init__(self, sentence: str, status: int, code: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


class NotAllowedError(DaemonRefusedError):
    """The login is missing or wrong, or lacks the right."""

    exit_status = NOT_ALLOWED


class Login(msgspec.Struct, frozen=True):
    """A user and a password; `repr` hides the password."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user!r})"

    @property
    def header(self) -> str:
        """The value of `Authorization` (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class Address(msgspec.Struct, frozen=True):
    """The address of the daemon's API: `path` begins with a slash; `login` is that of the URL, if any."""

    scheme: str
    host: str
    port: int
    path: str
    login: Login | None = None

    @property
    def origin(self) -> str:
        """The address without path and login."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def root(self) -> str:
        """The address without the last segment of the path: that of the database."""
        return self.origin + self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The daemon's `[http] name`, which is also the name of its design documents."""
        return self.path.rpartition("/")[2].removeprefix("_")

    def __str__(self) -> str:
        return self.origin + self.path


def address_of(http: Http, url: str | None, tls: Tls | None = None) -> Address:
    """The daemon's address from `url`, or else from the configuration's `http` and `tls`.

    Raises `UsageError` for an invalid address.
    """
    if url is None:
        if not http.port:
            raise UsageError(
                "[http] port is 0 (any free port): name the address that growd printed with --url"
            )
        scheme = "https" if tls is not None and tls.certificate else "http"
        return Address(scheme, _EVERYWHERE.get(http.host, http.host), http.port, f"/_{http.name}")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        raise _no_address(url) from None
    if parts.scheme not in _PORTS or port == 0 or not _is_plain(parts.path) or parts.query:
        raise _no_address(url)
    if not parts.hostname or not is_host(parts.hostname):
        raise _no_address(url)
    login = Login(unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    path = parts.path.rstrip("/") or f"/_{http.name}"
    return Address(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path, login)


def _is_plain(text: str) -> bool:
    """Whether it can stand in a request line."""
    return text.isascii() and text.isprintable() and " " not in text


def _no_address(url: str) -> UsageError:
    return UsageError(f"--url must be http://host:port, got {without_login(url)}")


class DaemonClient:
    """A connection to one daemon, opened at the first request; closed at the end of `with`."""

    def __init__(
        self,
        address: Address,
        login: Login | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.address = address
        self._login = login or address.login
        self._tls = tls
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, resource: str, name: str = "", *, kind: type[T], query: str = "") -> T:
        """GET from the API: `resource` is "topic", "param" ...

        Raises `ClientError`; for an unknown name `DaemonRefusedError` with status 404.
        """
        place = target(resource, name) + (f"?{query}" if query else "")
        return self._decoded(*self._whole("GET", place, None), kind)

    def page(self, resource: str, name: str = "", *, query: str = "") -> bytes:
        """GET a page from the API, as it is. Raises as `get`."""
        place = target(resource, name) + (f"?{query}" if query else "")
        status, body = self._whole("GET", place, None)
        if status != HTTPStatus.OK:
            raise self._refusal(status, body)
        return body

    def post(self, resource: str, name: str, body: Any, *, kind: type[T], query: str = "") -> T:
        """POST to the API, with `body` as JSON. Raises `ClientError`."""
        place = target(resource, name) + (f"?{query}" if query else "")
        return self._decoded(*self._whole("POST", place, msgspec.json.encode(body)), kind)

    def post_form(
        self, resource: str, name: str, form: Iterable[bytes], media: str, size: int, *, kind: type[T]
    ) -> T:
        """POST a form of this media type and size to the API. Raises `ClientError`."""
        self.close()
        headers = {"Content-Type": media, "Content-Length": str(size)}
        response = self._begin("POST", target(resource, name), form, headers)
        return self._decoded(response.status, self._read(response), kind)

    def delete(self, resource: str, name: str, *, kind: type[T]) -> T:
        """DELETE at the API. Raises `ClientError`."""
        return self._decoded(*self._whole("DELETE", target(resource, name), None), kind)

    def call(self, service: str, arguments: Any, *, kind: type[T], also: tuple[int, ...] = (400,)) -> T:
        """Call a service; HTTP statuses in `also` count as answers. Raises `ClientError`."""
        encoded = msgspec.json.encode(arguments)
        return self._decoded(*self._whole("POST", target("service", service), encoded), kind, also)

    def database(self, method: str, path: str, body: Any = None, *, kind: type[T]) -> T:
        """Send a request to the database behind the daemon; `path` is relative to the database's root.

        Raises `ClientError`; if the database refuses, `DaemonRefusedError` with its status and reason.
        """
        root = self.address.path.rpartition("/")[0]
        encoded = None if body is None else msgspec.json.encode(body)
        status, answer = self._whole(method, f"{root}/{path}", encoded)
        if status >= HTTPStatus.BAD_REQUEST:
            refusal = _refusal_of(answer)
            if status != HTTPStatus.UNAUTHORIZED and refusal.reason and not refusal.ERROR:
                raise DaemonRefusedError(refusal.reason, status, refusal.error)
            raise self._refusal(status, answer)
        return self._decoded(HTTPStatus.OK, answer, kind)

    @contextmanager
    def lines(self, path: str, accept: str = "application/x-ndjson") -> Iterator[Iterator[bytes]]:
        """The lines of a stream, on its own connection.

        `path` comes from `target`, perhaps with a query. Raises `ClientError` if refused. The lines end when
        the connection breaks.
        """
        with DaemonClient(self.address, self._login, self._tls, self._timeout_s) as other:
            response = other._begin("GET", path, None, {"Accept": accept})
            if response.status != HTTPStatus.OK:
                raise other._refusal(response.status, other._read(response))
            other._disable_timeout()
            yield _lines(response)

    def _whole(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if method != "GET":
            self.close()  # the server may have closed an idle connection, and a change must be sent only once
        try:
            response = self._begin(method, path, body, {})
        except _StaleError:
            response = self._begin(method, path, body, {})
        return response.status, self._read(response)

    def _begin(
        self, method: str, path: str, body: bytes | Iterable[bytes] | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        """Send a request, read the head of the answer; a path without a leading slash is below growd's."""
        headers = {"Accept": "application/json", "User-Agent": "growd", **headers}
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        if self._login is not None:
            headers["Authorization"] = self._login.header
        is_reused = self._connection is not None
        if self._connection is None:
            self._connection = self._connect()
        try:
            whole = path if path.startswith("/") else f"{self.address.path}/{path}"
            try:
                self._connection.request(method, whole, body, headers)
            except ConnectionError:
                if body is None or isinstance(body, bytes):
                    raise  # a long body may be refused before all of it is sent
            return self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError) as error:
            self.close()
            if is_reused:
                raise _StaleError from None
            raise self._explained(error) from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._explained(error) from None

    def _connect(self) -> http.client.HTTPConnection:
        where = self.address
        if where.scheme == "http":
            return http.client.HTTPConnection(where.host, where.port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(
            where.host, where.port, timeout=self._timeout_s, context=self._tls or trusting(None)
        )

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return _body_of(response, self._timeout_s)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._explained(error) from None

    def _disable_timeout(self) -> None:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(None)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, seconds in _KEEP_ALIVE:
                connection.sock.setsockopt(socket.IPPROTO_TCP, option, seconds)

    def _decoded(self, status: int, body: bytes, kind: type[T], also: tuple[int, ...] = ()) -> T:
        if status != HTTPStatus.OK and status not in also:
            raise self._refusal(status, body)
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise NotReachedError(f"a program other than growd answers at {self.address} ({error})") from None

    def _refusal(self, status: int, body: bytes) -> ClientError:
        refusal = _refusal_of(body)
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN} and refusal.error not in {
            "read_only",
            "not_open",
        }:
            return NotAllowedError(self._not_allowed(status, refusal.reason), status, refusal.error)
        if not refusal.ERROR:
            hint = ""
            if status == HTTPStatus.NOT_FOUND:
                hint = f"; if [http] name is NAME there, use --url {self.address.root}/_NAME"
            return NotReachedError(
                f"a program other than growd answers at {self.address} (HTTP status {status}){hint}"
            )
        return DaemonRefusedError(refusal.ERROR, status, refusal.error)

    def _not_allowed(self, status: int, reason: str) -> str:
        is_unknown = status == HTTPStatus.UNAUTHORIZED
        who = " without a login" if is_unknown else ""
        if self._login is not None:
            who = f" as {self._login.user}"
        hint = " (--user NAME)" if self._login is None and is_unknown else ""
        return f"{self.address} does not allow this{who}{': ' if reason else ''}{reason}{hint}"

    def _silent(self) -> NotReachedError:
        return NotReachedError(
            f"no daemon answers at {self.address}: is growd running? "
            "(--url or GROWD_URL names another address)"
        )

    def _explained(self, error: Exception) -> ClientError:
        """The reason as a sentence, without the login."""
        if isinstance(error, TimeoutError):
            return NotReachedError(
                f"the daemon did not answer at {self.address} within {self._timeout_s:g} s"
            )
        if self.address.scheme == "https":
            import ssl  # noqa: PLC0415  http.client has imported it

            if isinstance(error, ssl.SSLCertVerificationError):
                hint = "name a certificate to trust with --ca FILE"
                return NotReachedError(
                    f"the certificate of {self.address} is not trusted: {error.verify_message}; {hint}"
                )
            if isinstance(error, ssl.SSLError):
                return NotReachedError(f"the TLS handshake with {self.address} failed")
        if isinstance(error, http.client.HTTPException) and not isinstance(
            error, http.client.RemoteDisconnected
        ):
            return NotReachedError(f"a program other than growd answers at {self.address} (not HTTP)")
        if isinstance(error, socket.gaierror):
            return NotReachedError(f"the name {self.address.host} can't be resolved: {error.strerror}")
        return self._silent()


class _StaleError(Exception):
    """The server had closed an idle connection."""


class _Refusal(msgspec.Struct):
    ERROR: str = ""
    error: str = ""
    reason: str = ""


def _refusal_of(body: bytes) -> _Refusal:
    try:
        return msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError:
        return _Refusal()


def target(resource: str, name: str = "") -> str:
    """The path of a resource of the API; a name keeps its slashes."""
    parts = [*API, resource, *([quote(name.removeprefix("/"))] if name else [])]
    return "/".join(parts)


def _body_of(response: http.client.HTTPResponse, timeout_s: float) -> bytes:
    """The whole answer, within limits of time and size: another program may stream for ever."""
    body, until = bytearray(), time.monotonic() + timeout_s
    while data := response.read1(_STREAM_BYTES):
        body += data
        if time.monotonic() > until:
            raise TimeoutError
        if len(body) > _ANSWER_BYTES:
            raise http.client.HTTPException
    if response.length:
        raise http.client.IncompleteRead(bytes(body), response.length)
    response.close()  # the connection stays open
    return bytes(body)


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    waiting = b""
    while len(waiting) < _LINE_BYTES:
        try:
            data = response.read1(_STREAM_BYTES)
        except (OSError, ValueError, http.client.HTTPException):
            return
        if not data:
            return
        *lines, waiting = (waiting + data).split(b"\n")
        yield from lines


def trusting(ca: Path | None, *, insecure: bool = False) -> ssl.SSLContext:
    """A TLS context that trusts the machine's authorities, the certificates in `ca`, or any certificate.

    Raises `UsageError` for a file without a certificate.
    """
    import ssl  # noqa: PLC0415  seldom used

    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise UsageError(f"--ca {ca} can't be read: {_why(error)}") from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def trusting_only(file: Path) -> ssl.SSLContext:
    """A TLS context that trusts only the first certificate in the file, under any host name.

    Raises `UsageError` for a file without a certificate.
    """
    import ssl  # noqa: PLC0415  seldom used

    try:
        # the following ones are its authorities, which may have signed others too
        first = file.read_text(encoding="ascii").partition(_PEM_END)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata="".join(first[:2]))
    except (OSError, ValueError) as error:
        sentence = f"[tls] certificate {file} can't be read: {_why(error)}; name one with --ca"
        raise UsageError(sentence) from None
    return context


def _why(error: Exception) -> str:
    """Why no certificate could be read from a file."""
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.strerror:
        return error.strerror
    return "it contains no certificate"
