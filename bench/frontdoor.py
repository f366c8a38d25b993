"""Requests through the front door, compared with the same requests sent directly to the database.

The database is the embedded one, or the CouchDB that GROWD_TEST_COUCHDB=http://user:password@host:port
names. Some rows compare with nginx in place of growd, with the configuration in couchdb/: the limit of a
proxy in C.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from base64 import b64encode
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from measuring import (
    HERE,
    Measured,
    Options,
    Process,
    Row,
    compared,
    has,
    held_port,
    limited,
    main,
    pairs,
    server,
    wrk,
)
from raw_client import Connection, head

if TYPE_CHECKING:
    from collections.abc import Iterator

COUCHDB: Final = HERE.parent / "couchdb"
DATABASE: Final = f"/growd_bench_{uuid4().hex}"
ATTACHMENT: Final = f"{DATABASE}/large/body"
SIZE: Final = 100_000_000  # bytes of the attachment
EMBEDDED_SIZE: Final = 60_000_000  # bytes; the embedded database takes no body above 64 MiB
BLOCK: Final = os.urandom(1_000_000)  # nothing in it compresses
MEMORY: Final = 8.0  # MB that the daemon may grow while the attachment passes
NGINX: Final = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/growd.conf;
}}
"""


@dataclass(frozen=True)
class Way:
    """One of the ways to the database.

    `credentials` is an Authorization header's value, or empty; `size` is the attachment's, in bytes.
    """

    host: str
    port: int
    credentials: str
    size: int

    def rate(self, path: str, seconds: float, connections: int) -> float:
        """GETs a second."""
        script = f"wrk.headers['Authorization'] = '{self.credentials}'" if self.credentials else ""
        url = f"http://{self.host}:{self.port}{path}"
        return wrk(url, seconds, connections=connections, script=script).rate

    def ask(self, method: str, path: str, body: bytes = b"") -> int:
        """The status of the answer to a small request."""
        with self._sent(method, path, len(body)) as connection:
            connection.socket.sendall(body)
            return connection.status()

    def upload(self, path: str = "") -> float:
        """MB a second with which the attachment is stored, in a document of its own if no `path` is given."""
        began = time.monotonic()
        with self._sent("PUT", path or f"{DATABASE}/{uuid4()}/body", self.size) as connection:
            for _ in range(self.size // len(BLOCK)):
                connection.socket.sendall(BLOCK)
            status = connection.status()
        if status not in {201, 202}:
            raise RuntimeError(f"the upload was answered with {status}")
        return self.size / 1e6 / (time.monotonic() - began)

    def download(self) -> float:
        """MB a second with which the attachment is read."""
        room = bytearray(len(BLOCK))
        received = 0
        began = time.monotonic()
        with self._sent("GET", ATTACHMENT) as connection:
            while size := connection.socket.recv_into(room):
                received += size
        if received < self.size:
            raise RuntimeError(f"the download ended after {received} bytes")
        return self.size / 1e6 / (time.monotonic() - began)

    def _sent(self, method: str, path: str, length: int = 0) -> Connection:
        """A connection on which the head of a request went out; the server closes it after its answer."""
        fields = ["Connection: close", "Content-Type: application/octet-stream", f"Content-Length: {length}"]
        if self.credentials:
            fields.append(f"Authorization: {self.credentials}")
        connection = Connection(self.port, self.host, timeout_s=120)
        connection.socket.sendall(head(method, path, *fields))
        return connection


@dataclass(frozen=True)
class Small:
    """A small GET, asked for on so many connections at a time."""

    name: str
    path: str
    connections: int

    def against(self, door: Way, reference: Way, options: Options) -> Measured:
        return pairs(
            lambda: door.rate(self.path, options.seconds, self.connections),
            lambda: reference.rate(self.path, options.seconds, self.connections),
            options.rounds,
        )


DOCUMENT: Final = f"{DATABASE}/small"
SMALL: Final = (
    Small("GET /, 1 connection", "/", 1),
    Small("GET /, 16 connections", "/", 16),
    Small("GET a small document, 1 connection", DOCUMENT, 1),
    Small("GET a small document, 16 connections", DOCUMENT, 16),
)


def measure(options: Options) -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="growd-bench-") as name,
        database(Path(name)) as direct,
        server("core", "--upstream", f"http://{direct.host}:{direct.port}") as daemon,
    ):
        door = replace(direct, host="127.0.0.1", port=daemon.port)
        try:
            direct.ask("PUT", DATABASE)
            direct.ask("PUT", DOCUMENT, b'{"value": 410.25, "unit": "ppm"}')
            return [*_small(door, direct, Path(name), options), *_large(door, direct, daemon, options)]
        finally:
            with suppress(ConnectionError):  # an interrupt may have ended an embedded server before
                direct.ask("DELETE", DATABASE)


def _small(door: Way, direct: Way, folder: Path, options: Options) -> list[Row]:
    if not has("wrk"):
        return []
    rows = [
        compared(small.name, "requests/s", small.against(door, direct, options), at_least=0.5)
        for small in SMALL
    ]
    if has("nginx"):
        with nginx(folder, direct) as yardstick:
            rows += [
                compared(
                    f"{small.name}; reference: nginx", "requests/s", small.against(door, yardstick, options)
                )
                for small in SMALL
            ]
    return rows


def _large(door: Way, direct: Way, daemon: Process, options: Options) -> list[Row]:
    """A large attachment up and down, and what the daemon grew meanwhile."""
    door.upload(ATTACHMENT)  # what is loaded and allocated with the first one is no growth
    door.download()
    before = daemon.rss_mb()
    daemon.forget_peak()
    up = pairs(door.upload, direct.upload, options.rounds)
    down = pairs(door.download, direct.download, options.rounds)
    grown = daemon.peak_mb() - before
    size = f"{direct.size / 1e6:g} MB"
    return [
        compared(f"PUT of {size}", "MB/s", up, at_least=0.8),
        compared(f"GET of {size}", "MB/s", down, at_least=0.8),
        limited("growth of the daemon meanwhile, at the peak", "MB", grown, MEMORY),
    ]


@contextmanager
def database(folder: Path) -> Iterator[Way]:
    """The CouchDB that the environment names, or an embedded one with its data in `folder`."""
    if address := os.environ.get("GROWD_TEST_COUCHDB"):
        parts = urlsplit(address)
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        credentials = f"Basic {b64encode(user.encode()).decode()}" if parts.username else ""
        yield Way(parts.hostname or "127.0.0.1", parts.port or 5984, credentials, SIZE)
        return
    server = str(COUCHDB / "embedded" / "server.mjs")
    command = ["node", server, "--data", str(folder / "data"), "--client-design-documents"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101  asked for above
        try:
            yield Way("127.0.0.1", json.loads(process.stdout.readline())["port"], "", EMBEDDED_SIZE)
        finally:
            process.terminate()


@contextmanager
def nginx(folder: Path, direct: Way) -> Iterator[Way]:
    """An nginx of one process, with the project's configuration, in the door's place."""
    with held_port() as port:
        text = (COUCHDB / "nginx.conf").read_text(encoding="utf-8")
        text = text.replace("127.0.0.1:5984;", f"127.0.0.1:{port};").replace(
            "127.0.0.1:5985;", f"{direct.host}:{direct.port};"
        )
        (folder / "growd.conf").write_text(text, encoding="utf-8")
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder), encoding="utf-8")
        command = [
            "nginx",
            "-p",
            str(folder),
            "-e",
            str(folder / "error.log"),
            "-c",
            str(folder / "nginx.conf"),
        ]
        with subprocess.Popen(command) as process:
            way = replace(direct, host="127.0.0.1", port=port)
            try:
                while not _answers(way):
                    time.sleep(0.01)
                yield way
            finally:
                process.terminate()


def _answers(way: Way) -> bool:
    try:
        return way.ask("GET", "/") > 0
    except ConnectionRefusedError:
        return False


if __name__ == "__main__":
    main(measure, rounds=3, seconds=2.0)
