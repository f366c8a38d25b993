"""Bodies of devices: their limits."""

import asyncio
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from growd.server.errors import ApiError
from growd_cloud import bodies as limits
from growd_cloud.bodies import KEPT_FOR_SMALL, MOST_BODY, MOST_HELD, Bodies
from support.couch_client import client_of

pytestmark = pytest.mark.long


@asynccontextmanager
async def reader_of(bodies):
    """A client of a server that answers with the size of each body, and with the bytes held meanwhile."""

    async def handle(request):
        try:
            async with bodies.body(request, 1_000, account=request.path.strip("/")) as body:
                return web.json_response([len(body), bodies.held])
        except ApiError as error:
            return error.response_to(request)

    runner = web.ServerRunner(web.Server(handle, auto_decompress=False))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with client_of("http://{}:{}".format(*runner.addresses[0])) as client:
            yield client
    finally:
        await runner.cleanup()


async def piece_by_piece(size):
    for _ in range(size):
        yield b"x"


async def test_a_large_or_compressed_body_is_refused():
    bodies = Bodies()
    async with reader_of(bodies) as client:
        assert (await client("POST", "/", b"x" * 1_001)).status == 413
        async with client.session.post(client.url, data=piece_by_piece(1_001)) as answer:
            assert answer.status == 413
        answer = await client("POST", "/", b"x", headers={"Content-Encoding": "gzip"})
        assert answer.status == 415
        assert (await client("POST", "/", b"x" * 700)).json == [700, 700]  # counted while it is held
        assert bodies.held == 0


async def test_all_bodies_together_have_a_limit():
    bodies = Bodies()
    bodies.held = MOST_HELD - 500
    async with reader_of(bodies) as client:
        assert (await client("POST", "/", b"x" * 500)).status == 200
        answer = await client("POST", "/", b"x" * 501)
        assert (answer.status, answer.json["error"], answer.headers["Retry-After"]) == (503, "busy", "5")
        assert bodies.held == MOST_HELD - 500


async def test_the_bodies_of_an_account_have_a_limit():
    bodies = Bodies()
    bodies.held_of["a"] = MOST_BODY - 500
    async with reader_of(bodies) as client:
        assert (await client("POST", "/a", b"x" * 500)).status == 200
        answer = await client("POST", "/a", b"x" * 501)
        assert (answer.status, answer.json["error"]) == (503, "busy")
        assert (await client("POST", "/b", b"x" * 501)).status == 200


async def test_small_bodies_come_in_while_there_are_many_large_ones(monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 700)
    bodies = Bodies()
    bodies.held = MOST_HELD - KEPT_FOR_SMALL
    async with reader_of(bodies) as client:
        assert (await client("POST", "/", b"x" * 700)).status == 200
        assert (await client("POST", "/", b"x" * 701)).status == 503


async def test_a_body_that_comes_byte_by_byte_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "STALL_S", 0.5)
    async with reader_of(Bodies()) as client:
        host, port = urlsplit(client.url).netloc.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
        status = asyncio.create_task(reader.readline())
        while not status.done():  # ends with the answer
            writer.write(b"x")
            await asyncio.wait({status}, timeout=0.05)
        assert b" 408 " in await status
        writer.close()
