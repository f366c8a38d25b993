"""HTTP/1.1 over a bare socket, for clients that have to cost little or to misbehave."""

from __future__ import annotations

import re
import socket
from typing import Self

PIECE = 65_536  # bytes


def head(method: str, path: str, *fields: str) -> bytes:
    """The head of a request with these header lines."""
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *fields, "", "")).encode()


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """A request, with a JSON body if there is one."""
    if not body:
        return head(method, path)
    return head(method, path, "Content-Type: application/json", f"Content-Length: {len(body)}") + body


class AnswerError(RuntimeError):
    """An answer that is not the one that was asked for."""


class Connection:
    """One connection, used by one thread that waits for each answer. A context manager."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout_s: float = 30.0) -> None:
        self.socket = socket.create_connection((host, port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        """A request, in one write."""
        self.socket.sendall(request(method, path, body))

    def status(self) -> int:
        """The status of the answer, which is read to its end. It has a Content-Length."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._piece(data)
        beginning, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", beginning)
        left = int(length[1]) - len(body) if length else 0
        while left > 0:
            left -= len(self._piece(beginning))
        return int(beginning.split(maxsplit=2)[1])

    def check_answer(self) -> None:
        """Read the answer, which has to be a good one: `AnswerError` if it is not 200."""
        status = self.status()
        if status != 200:
            raise AnswerError(f"the answer was {status}")

    def read_until(self, end: bytes) -> bytes:
        """All that comes, up to a piece that ends with `end`. The server sends no more than one answer."""
        data = b""
        while not data.endswith(end):
            data += self._piece(data)
        return data

    def _piece(self, before: bytes) -> bytes:
        piece = self.socket.recv(PIECE)
        if not piece:
            raise ConnectionError(f"the server closed the connection after {before!r}")
        return piece
