"""Requests over the standard library: blocking, and quick to import."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec

from growd_client.request import ClientCall, encoded, target
from growd_client.server import ANSWER_BYTES, Hints, Server
from growd_client.trust import trusting

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator, Mapping

    from growd_client.address import Address, Login
    from growd_client.errors import GrowdError

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
PIECE_BYTES: Final = 65_536
LINE_BYTES: Final = 16 * 1024 * 1024
"""Limit of one message."""
# A stream may be silent for hours; TCP keepalive detects a daemon without power within 30 s. Not every
# system has these options.
_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


class DaemonClient:
    """A connection to one daemon, opened at the first request; closed at the end of `with`."""

    def __init__(
        self,
        address: Address,
        login: Login | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
        hints: Hints | None = None,
    ) -> None:
        self.address = address
        self.server = Server(address, login or address.login, timeout_s, hints or Hints())
        self._tls = tls
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, call: ClientCall[T]) -> T:
        """The answer to a call of `calls.py`. Raises `GrowdError`."""
        body: bytes | Iterable[bytes] | None = call.body
        if call.form is not None:
            self.close()
            body = call.form
        wait_s = self.server.timeout_s + call.wait_s
        place = self.server.place(call)
        status, answer, headers = self._whole(call.method, place, body, call.headers(), wait_s)
        return self.server.answer(call, status, answer, headers)

    def get(self, resource: str, name: str = "", *, kind: type[T], query: str = "") -> T:
        """GET from the API: `resource` is "topic", "param" ...

        Raises `GrowdError`; for an unknown name `RefusedError` with status 404.
        """
        return self._ask("GET", target(resource, name, query), kind)

    def page(self, resource: str, name: str = "", *, query: str = "") -> bytes:
        """GET a page from the API, as it is. Raises as `get`."""
        return self.send(ClientCall("GET", target(resource, name, query), bytes))

    def post(self, resource: str, name: str, body: Any, *, kind: type[T], query: str = "") -> T:
        """POST to the API, with `body` as JSON. Raises `GrowdError`."""
        return self._ask("POST", target(resource, name, query), kind, encoded(body))

    def delete(self, resource: str, name: str, *, kind: type[T]) -> T:
        """DELETE at the API. Raises `GrowdError`."""
        return self._ask("DELETE", target(resource, name), kind)

    def call(self, service: str, arguments: Any, *, kind: type[T]) -> T:
        """The answer of a service, also if it refuses. Raises `GrowdError`, as for wrong arguments."""
        return self._ask("POST", target("service", service), kind, encoded(arguments), service=True)

    def database(self, method: str, path: str, body: Any = None, *, kind: type[T]) -> T:
        """Send a request to the database behind the daemon; `path` is relative to the database's root.

        Raises `GrowdError`; if the database refuses, `RefusedError` with its status and reason.
        """
        return self._ask(method, path, kind, None if body is None else encoded(body), of_database=True)

    @contextmanager
    def lines(
        self,
        path: str,
        accept: str = "application/x-ndjson",
        headers: Mapping[str, str] | None = None,
        silence_s: float | None = None,
    ) -> Iterator[Iterator[bytes]]:
        """The lines of a stream, on its own connection.

        `path` comes from `target`, perhaps with a query. Raises `GrowdError` if refused. The lines end when
        the connection breaks, or is silent for longer than `silence_s`.
        """
        server = self.server
        with (
            DaemonClient(self.address, server.login, self._tls, server.timeout_s, server.hints) as other,
            # an answer that ends with its connection holds the socket until it is closed itself
            other._begin("GET", path, None, {"Accept": accept, **(headers or {})}) as response,
        ):
            if response.status != HTTPStatus.OK:
                body = other._read(response, server.timeout_s)
                raise server.refusal(response.status, body, dict(response.headers))
            other._set_silence(silence_s)
            yield _lines(response)

    def _ask(self, method: str, path: str, kind: type[T], body: bytes | None = None, **more: Any) -> T:
        call: ClientCall[T] = ClientCall(method, path, partial(msgspec.json.decode, type=kind), body, **more)
        return self.send(call)

    def _whole(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None,
        headers: Mapping[str, str],
        limit_s: float,
    ) -> tuple[int, bytes, Mapping[str, str]]:
        if method != "GET":
            self.close()  # the server may have closed an idle connection, and a change must be sent only once
        try:
            response = self._begin(method, path, body, headers, limit_s)
        except _StaleError:
            response = self._begin(method, path, body, headers, limit_s)
        return response.status, self._read(response, limit_s), dict(response.headers)

    def _begin(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None,
        headers: Mapping[str, str],
        timeout_s: float | None = None,
    ) -> http.client.HTTPResponse:
        """Send a request, read the head of the answer; a path without a leading slash is below growd's."""
        sent = {"Accept": "application/json", "User-Agent": "growd", **headers}
        if self.server.login is not None:
            sent["Authorization"] = self.server.login.header
        is_reused = self._connection is not None
        limit_s = timeout_s or self.server.timeout_s
        try:
            connection = self._connected(limit_s)
            try:
                connection.request(method, self.server.target(path), body, sent)
            except ConnectionError:
                if body is None or isinstance(body, bytes):
                    raise  # a long body may be refused before all of it is sent
            with _limited(connection.sock, limit_s):
                return connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError) as error:
            self.close()
            if is_reused:
                raise _StaleError from None
            raise self._explained(error, limit_s) from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._explained(error, limit_s) from None

    def _connected(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.timeout = timeout_s
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_s)
        return self._connection

    def _connect(self) -> http.client.HTTPConnection:
        where = self.address
        if where.scheme == "http":
            return http.client.HTTPConnection(where.host, where.port)
        return http.client.HTTPSConnection(where.host, where.port, context=self._tls or trusting(None))

    def _read(self, response: http.client.HTTPResponse, timeout_s: float) -> bytes:
        try:
            return _body_of(response, timeout_s)
        except _TooLongError:
            self.close()
            raise self.server.too_long() from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._explained(error, timeout_s) from None

    def _set_silence(self, seconds: float | None) -> None:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(seconds)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEP_ALIVE:
                if (option := getattr(socket, name, None)) is not None:
                    connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)

    def _explained(self, error: Exception, limit_s: float) -> GrowdError:
        """The reason as a sentence, without the login."""
        server = self.server
        if isinstance(error, TimeoutError):
            return server.late(limit_s)
        if self.address.scheme == "https":
            import ssl  # noqa: PLC0415  http.client has imported it

            if isinstance(error, ssl.SSLCertVerificationError):
                return server.untrusted(error.verify_message)
            if isinstance(error, ssl.SSLError):
                return server.handshake_failed()
        if isinstance(error, http.client.HTTPException) and not isinstance(
            error, http.client.RemoteDisconnected
        ):
            return server.other_program("not HTTP")
        if isinstance(error, socket.gaierror):
            return server.unresolved(error.strerror)
        return server.silent()


@contextmanager
def _limited(link: socket.socket, seconds: float) -> Iterator[None]:
    """A time limit for the body, which reads from this socket. Raises `TimeoutError`.

    The socket has a limit for each read only, and http.client waits for ever while 100 Continue comes.
    """
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        with suppress(OSError):
            socket.socket.shutdown(link, socket.SHUT_RDWR)  # SSLSocket's takes TLS away from the reader

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if is_late.is_set():
            raise TimeoutError


class _TooLongError(Exception):
    """The answer is longer than `ANSWER_BYTES`."""


class _StaleError(Exception):
    """The server had closed an idle connection."""


def _body_of(response: http.client.HTTPResponse, timeout_s: float) -> bytes:
    """The whole answer, within limits of time and size: another program may stream for ever."""
    body, until = bytearray(), time.monotonic() + timeout_s
    while data := response.read1(PIECE_BYTES):
        body += data
        if time.monotonic() > until:
            raise TimeoutError
        if len(body) > ANSWER_BYTES:
            raise _TooLongError
    if response.length:
        raise http.client.IncompleteRead(bytes(body), response.length)
    response.close()  # the connection stays open
    return bytes(body)


def _lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    waiting = b""
    while len(waiting) < LINE_BYTES:
        try:
            data = response.read1(PIECE_BYTES)
        except (OSError, ValueError, http.client.HTTPException):
            return
        if not data:
            return
        *lines, waiting = (waiting + data).split(b"\n")
        yield from lines
