"""The one HTTP client of the command line: where the daemon is, who asks, and errors as sentences.

It blocks, and is made from the standard library: a command that asks one thing should not read an HTTP server
and an event loop first.
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
    from collections.abc import Iterator
    from pathlib import Path

    from growd.config import Http
    from growd.config.tls import Tls

T = TypeVar("T")

REFUSED: Final = 1
"""The exit status where the daemon refuses, or the configuration is wrong."""
WRONG_USAGE: Final = 2
"""That of a wrong command line; click's own."""
NOT_REACHED: Final = 3
"""That where no daemon answers, or what answers is none."""
NOT_ALLOWED: Final = 4
"""That where the daemon wants another login (HTTP 401), or the login may not do it (403)."""
TIMEOUT_S: Final = 10.0
API: Final = ("api", "0.0.1")
_STREAM_BYTES: Final = 65_536
_LINE_BYTES: Final = 16 * 1024 * 1024  # of one message; no daemon sends so long a one
_ANSWER_BYTES: Final = 64 * 1024 * 1024  # of one answer that has an end, likewise
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where a daemon that is there listens
_PEM_END: Final = "-----END CERTIFICATE-----"
_PORTS: Final = {"http": 80, "https": 443}
# A stream may be silent for hours. That its far side has lost power, TCP notices within 30 s.
_KEEP_ALIVE: Final = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class ClientError(Exception):
    """The daemon can't be asked, or refuses; the sentence says where and why."""

    exit_status: int = REFUSED


class UsageError(ClientError):
    """What the command line names can't be: an address, a login, a certificate."""

    exit_status = WRONG_USAGE


class NotReachedError(ClientError):
    """Nobody answers there, or not in time, or it is not growd."""

    exit_status = NOT_REACHED


class DaemonRefusedError(ClientError):
    """The daemon's own refusal, in its words. `status` is the one of HTTP, `code` the word for programs."""

    def __init__(self, sentence: str, status: int, code: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


class NotAllowedError(DaemonRefusedError):
    """The daemon does not let this login, or nobody, do it."""

    exit_status = NOT_ALLOWED


class Login(msgspec.Struct, frozen=True):
    """Who asks. The password is shown nowhere."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user!r})"

    @property
    def header(self) -> str:
        """The value of `Authorization` (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class Address(msgspec.Struct, frozen=True):
    """Where the daemon's own segment is; `path` begins with a slash. `login` is what the URL had of one."""

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
        """The address in which the daemon's own segment stands."""
        return self.origin + self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The daemon's `[http] name`, which its design documents have too."""
        return self.path.rpartition("/")[2].removeprefix("_")

    def __str__(self) -> str:
        return self.origin + self.path


def address_of(http: Http, url: str | None, tls: Tls | None = None) -> Address:
    """Where the daemon's own segment is: as `url` says, or as the configuration does with `http` and `tls`.

    Raises `UsageError` for what can't be an address.
    """
    if url is None:
        if not http.port:
            raise UsageError("[http] port is 0, any free one: give the address that growd said with --url")
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
    """Whether it can stand in the first line of a request."""
    return text.isascii() and text.isprintable() and " " not in text


def _no_address(url: str) -> UsageError:
    return UsageError(f"--url must be http://host:port, got {without_login(url)}")


class DaemonClient:
    """A connection to one daemon, opened at the first question and kept; closed at the end of `with`."""

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
        """The answer to a GET of the API: `resource` is "topic", "param" ...

        Raises `ClientError`; what is not there is a `DaemonRefusedError` with status 404.
        """
        place = target(resource, name) + (f"?{query}" if query else "")
        return self._decoded(*self._whole("GET", place, None), kind)

    def post(self, resource: str, name: str, body: Any, *, kind: type[T], query: str = "") -> T:
        """The answer to a POST of the API, with `body` as JSON. Raises `ClientError`."""
        place = target(resource, name) + (f"?{query}" if query else "")
        return self._decoded(*self._whole("POST", place, msgspec.json.encode(body)), kind)

    def delete(self, resource: str, name: str, *, kind: type[T]) -> T:
        """The answer to a DELETE of the API. Raises `ClientError`."""
        return self._decoded(*self._whole("DELETE", target(resource, name), None), kind)

    def call(self, service: str, arguments: Any, *, kind: type[T], also: tuple[int, ...] = (400,)) -> T:
        """The answer of a service; a refusal with one of the statuses `also` too. Raises `ClientError`."""
        encoded = msgspec.json.encode(arguments)
        return self._decoded(*self._whole("POST", target("service", service), encoded), kind, also)

    def database(self, method: str, path: str, body: Any = None, *, kind: type[T]) -> T:
        """The answer of the database behind the daemon; `path` is below the root that it is served at.

        Raises `ClientError`; what the database refuses is a `DaemonRefusedError` with its status and reason.
        """
        root = self.address.path.rpartition("/")[0]
        encoded = None if body is None else msgspec.json.encode(body)
        status, answer = self._whole(method, f"{root}/{path}", encoded)
        if status >= HTTPStatus.BAD_REQUEST:
            told = _refusal_of(answer)
            if status != HTTPStatus.UNAUTHORIZED and told.reason and not told.ERROR:
                raise DaemonRefusedError(told.reason, status, told.error)
            raise self._refusal(status, answer)
        return self._decoded(HTTPStatus.OK, answer, kind)

    @contextmanager
    def lines(self, path: str, accept: str = "application/x-ndjson") -> Iterator[Iterator[bytes]]:
        """The lines of an answer that has no end, on a connection of its own, as they come.

        `path` is as `target` makes it, with a query perhaps. Raises `ClientError` where it is refused; a
        connection that breaks ends the lines.
        """
        with DaemonClient(self.address, self._login, self._tls, self._timeout_s) as other:
            response = other._begin("GET", path, None, {"Accept": accept})
            if response.status != HTTPStatus.OK:
                raise other._refusal(response.status, other._read(response))
            other._let_it_be_silent()
            yield _lines(response)

    def _whole(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if method != "GET":
            self.close()  # one that was kept may be closed by now, and what changes something is sent once
        try:
            response = self._begin(method, path, body, {})
        except _StaleError:
            response = self._begin(method, path, body, {})
        return response.status, self._read(response)

    def _begin(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        """Send a request and read the head of its answer; a path without a slash is of growd's segment."""
        headers = {"Accept": "application/json", "User-Agent": "growd", **headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._login is not None:
            headers["Authorization"] = self._login.header
        kept = self._connection is not None
        if self._connection is None:
            self._connection = self._connect()
        try:
            whole = path if path.startswith("/") else f"{self.address.path}/{path}"
            self._connection.request(method, whole, body, headers)
            return self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError) as error:
            self.close()
            if kept:
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

    def _let_it_be_silent(self) -> None:
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
            raise NotReachedError(f"what answers at {self.address} is not growd ({error})") from None

    def _refusal(self, status: int, body: bytes) -> ClientError:
        told = _refusal_of(body)
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN} and told.error not in {
            "read_only",
            "not_open",
        }:
            return NotAllowedError(self._not_allowed(status, told.reason), status, told.error)
        if not told.ERROR:
            hint = ""
            if status == HTTPStatus.NOT_FOUND:
                hint = f"; a growd whose [http] name is NAME takes --url {self.address.root}/_NAME"
            return NotReachedError(
                f"what answers at {self.address} is not growd (HTTP status {status}){hint}"
            )
        return DaemonRefusedError(told.ERROR, status, told.error)

    def _not_allowed(self, status: int, reason: str) -> str:
        is_unknown = status == HTTPStatus.UNAUTHORIZED
        who = " without a login" if is_unknown else ""
        if self._login is not None:
            who = f" as {self._login.user}"
        hint = " (--user NAME)" if self._login is None and is_unknown else ""
        return f"{self.address} does not allow it{who}{': ' if reason else ''}{reason}{hint}"

    def _silent(self) -> NotReachedError:
        return NotReachedError(f"growd does not answer at {self.address}: is it running?")

    def _explained(self, error: Exception) -> ClientError:
        """Why it did not work, without the login."""
        if isinstance(error, TimeoutError):
            return NotReachedError(f"growd has not answered at {self.address} within {self._timeout_s:g} s")
        if self.address.scheme == "https":
            import ssl  # noqa: PLC0415  http.client has it by now

            if isinstance(error, ssl.SSLCertVerificationError):
                hint = "name whom you trust with --ca FILE"
                return NotReachedError(
                    f"the certificate of {self.address} is not trusted: {error.verify_message}; {hint}"
                )
            if isinstance(error, ssl.SSLError):
                return NotReachedError(f"what answers at {self.address} speaks no TLS that is understood")
        if isinstance(error, http.client.HTTPException) and not isinstance(
            error, http.client.RemoteDisconnected
        ):
            return NotReachedError(f"what answers at {self.address} is not growd (no HTTP)")
        if isinstance(error, socket.gaierror):
            return NotReachedError(f"the name {self.address.host} can't be resolved: {error.strerror}")
        return self._silent()


class _StaleError(Exception):
    """A connection that was kept, and that the far side had closed."""


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
    """The path of something beneath the daemon's own segment; a name keeps its slashes."""
    parts = [*API, resource, *([quote(name.removeprefix("/"))] if name else [])]
    return "/".join(parts)


def _body_of(response: http.client.HTTPResponse, timeout_s: float) -> bytes:
    """The whole answer, if it comes in time and has an end: what is not growd may stream for ever."""
    body, until = bytearray(), time.monotonic() + timeout_s
    while data := response.read1(_STREAM_BYTES):
        body += data
        if time.monotonic() > until:
            raise TimeoutError
        if len(body) > _ANSWER_BYTES:
            raise http.client.HTTPException
    if response.length:
        raise http.client.IncompleteRead(bytes(body), response.length)
    response.close()  # the connection is kept
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
    """What certificates are taken: those of the authorities of this machine, or of the file `ca`, or all.

    Raises `UsageError` for a file that holds none.
    """
    import ssl  # noqa: PLC0415  few need it

    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise UsageError(f"--ca {ca} can't be read: {_why(error)}") from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def trusting_only(file: Path) -> ssl.SSLContext:
    """Nobody but the holder of the first certificate in the file, under whatever name it is reached.

    Raises `UsageError` for a file that holds none.
    """
    import ssl  # noqa: PLC0415  few need it

    try:
        # those that follow it lead to its authority, which may have others as well
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
    """Why no certificate could be read: what the system says of the file, or that none is in it."""
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.strerror:
        return error.strerror
    return "it holds no certificate"
