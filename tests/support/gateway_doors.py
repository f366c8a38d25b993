"""The same requests through two doors, and what may differ between the answers."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from support.raw_http import raw_client

HOST = b"chamber.local:5984"  # said through both doors: `Location` must name it
# These differ by time or by connection, whichever door is taken. growd may frame a body in another way.
VARYING = {
    b"date",
    b"x-couch-request-id",
    b"x-couchdb-body-time",
    b"connection",
    b"keep-alive",
    b"content-length",
    b"transfer-encoding",
}
# What CouchDB makes anew for each database or request, whatever it is asked.
_RANDOM = re.compile(
    rb'(?<="seq":")\d+-[^"]+|(?<=_seq":")\d+-[^"]+|(?<=instance_start_time":")\d+|(?<=AuthSession=)[^;]+'
    rb'|(?<=boundary=")[0-9a-f]{32}|(?<=--)[0-9a-f]{32}|"[0-9A-Z]{23,25}"'
    rb'|(?<=<p>)[^<]+|(?<="uuid":")[^"]+|(?<=<0\.)\d+\.\d+'
)


@dataclass(frozen=True)
class Step:
    """A request. `chunked`: sent without its length. `headers` beside Host, Authorization and the length."""

    method: str
    path: str
    body: Any = None
    headers: tuple[str, ...] = ()
    chunked: bool = False

    def __str__(self):
        return f"{self.method} {self.path}"

    @property
    def bytes(self):
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body).encode()


def port_of(server):
    port = urlsplit(server.url).port
    assert port is not None
    return port


def request_bytes(step, server, *, host=HOST):
    """The step as it goes over the wire."""
    lines = [f"{step.method} {step.path} HTTP/1.1".encode(), b"Host: " + host]
    lines += [header.encode() for header in step.headers]
    if server.auth and not any(header.startswith(("Authorization", "Cookie")) for header in step.headers):
        lines.append(b"Authorization: Basic " + b64encode(":".join(server.auth).encode()))
    body = step.bytes
    if body is None:
        return b"\r\n".join((*lines, b"", b""))
    if not any(header.startswith("Content-Type") for header in step.headers):
        lines.append(b"Content-Type: application/json")
    if not step.chunked:
        return b"\r\n".join((*lines, b"Content-Length: %d" % len(body), b"", body))
    half = len(body) // 2
    pieces = [b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]) if part]
    return b"\r\n".join((*lines, b"Transfer-Encoding: chunked", b"", b"".join(pieces) + b"0\r\n\r\n"))


async def ask(client, step, server):
    await client.send(request_bytes(step, server))
    return await client.answer(step.method)


async def transcript(port, steps, server):
    """The answers to `steps`, without what varies; each on a connection of its own."""
    answers = []
    for step in steps:
        async with raw_client(port) as client:
            answers.append(steady(await ask(client, step, server)))
    return answers


def steady(answer):
    """The answer without what varies from one request to the next.

    growd adds a Server, and a Content-Type, where the database sends none.
    """
    headers = [
        (name, _RANDOM.sub(b"*", value))
        for name, value in answer.headers
        if name.lower() not in VARYING and not value.startswith((b"Python/", b"application/octet-stream"))
    ]
    return replace(answer, headers=headers, body=_RANDOM.sub(b"*", answer.body))
