"""JSON answers as they stand on the wire."""

import gzip
import json
import random
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from growd.server.json_answer import PIECE, JsonAnswer
from support.gateway_server import gateway_to
from support.raw_http import raw_client

BODY = b'{"a":1}'


@asynccontextmanager
async def client_of_server_with(change):
    """A client of a server whose answers are changed by `change` before they are sent."""

    async def handle(_):
        answer = JsonAnswer(BODY)
        change(answer)
        return answer

    async with (
        gateway_to(None, behind=lambda _: SimpleNamespace(handle=handle)) as port,
        raw_client(port) as client,
    ):
        yield client


def unchanged(_):
    pass


async def test_head_and_body_are_complete():
    async with client_of_server_with(unchanged) as client:
        for _ in range(2):
            await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = await client.answer()
            assert answer.status_line == b"HTTP/1.1 200 OK"
            assert answer.body == BODY
            names = [name for name, _ in answer.headers]
            assert len(names) == len(set(names))
            assert {b"Content-Type", b"Content-Length", b"Date", b"Cache-Control"} < set(names)
            assert b"Connection" not in names


@pytest.mark.parametrize("size", [PIECE - 1, PIECE, PIECE + 1, 50 * PIECE + 7])
async def test_a_large_document_is_whole_and_the_connection_stays(size):
    document = random.Random(size).randbytes(size)

    def replace(answer):
        answer.document = document

    async with client_of_server_with(replace) as client:
        for _ in range(2):
            await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await client.answer()).body == document


async def test_a_large_document_is_compressed_for_a_client_that_accepts_it():
    document = json.dumps(["a value"] * 1_000).encode()

    def replace(answer):
        answer.document = document

    async with client_of_server_with(replace) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br, gzip;q=0.5\r\n\r\n")
        answer = await client.answer()
        assert (b"Content-Encoding", b"gzip") in answer.headers
        assert (b"Vary", b"Accept-Encoding") in answer.headers
        assert gzip.decompress(answer.body) == document
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip;q=0\r\n\r\n")
        assert (await client.answer()).body == document


async def test_head_has_no_body():
    async with client_of_server_with(unchanged) as client:
        await client.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"Content-Length: 7\r\n" in await client.head()
        assert (await client.answer()).body == BODY


@pytest.mark.parametrize(
    ("request_line", "connection", "change", "answered"),
    [
        (b"HTTP/1.0", b"keep-alive", unchanged, b"keep-alive"),
        (b"HTTP/1.0", b"", unchanged, b"close"),
        (b"HTTP/1.1", b"close", unchanged, b"close"),
        (b"HTTP/1.1", b"keep-alive", JsonAnswer.force_close, b"close"),
    ],
)
async def test_the_connection_stays_open_or_closes_as_the_answer_says(
    request_line, connection, change, answered
):
    async with client_of_server_with(change) as client:
        head = b"GET / " + request_line + b"\r\nHost: x\r\nConnection: " + connection + b"\r\n\r\n"
        await client.send(head)
        answer = await client.answer()
        assert answer.value(b"Connection") == answered
        if answered == b"close":
            await client.gone()
        else:
            await client.send(head)
            assert (await client.answer()).body == BODY


async def test_added_headers_are_sent():
    def add(answer):
        answer.headers.add("Set-Cookie", "a=1; Path=/")

    async with client_of_server_with(add) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer()).value(b"Set-Cookie") == b"a=1; Path=/"


async def test_a_header_can_not_add_another(caplog):
    def add(answer):
        answer.headers.add("Set-Cookie", "a=1\r\nX: y")

    async with client_of_server_with(add) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await client.reader.read() == b""
    assert "invalid header value" in caplog.text
