"""The front door as a pipe: nothing held back, nothing held in memory, nothing left when one end goes."""

import asyncio
import logging
from contextlib import AsyncExitStack

import pytest

from support.exporting import front_door
from support.gateway_server import gateway_before, gateway_to
from support.raw_http import Peer, RawUpstream, raw_client

GET = b"GET /db/_changes?feed=continuous HTTP/1.1\r\nHost: h\r\n\r\n"
PUT = b"PUT /db/doc/attachment HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
BLOCK = b"x" * 65536
BOUND = 16 << 20  # bytes: the kernel's buffers on both connections, and 256 KiB here and there of ours
SPIN = 300  # turns of the event loop without a byte moving: it has come to rest


async def at_rest(count):
    """`count` once it has stopped growing."""
    last, turns = -1, 0
    while turns < SPIN:
        await asyncio.sleep(0)
        turns = turns + 1 if count() == last else 0
        last = count()
    return last


async def pour(peer, sent):
    while True:
        peer.writer.write(BLOCK)
        sent[0] += len(BLOCK)
        await peer.writer.drain()


class TestFeeds:
    @pytest.mark.parametrize("line", [b"\n", b"id: 1\ndata: {}\n\n"])
    async def test_each_piece_passes_at_once(self, line):
        seen = asyncio.Queue()

        async def script(peer):
            await peer.head()
            await peer.send(CHUNKED)
            assert await seen.get() == "head"
            for _ in range(3):
                await peer.send(b"%x\r\n%b\r\n" % (len(line), line))
                assert await seen.get() == line
            await peer.send(b"0\r\n\r\n")

        async with gateway_before(script) as (upstream, client):
            await client.send(GET)
            await client.head()
            seen.put_nowait("head")
            async for chunk in client.chunks():
                seen.put_nowait(chunk)
            await upstream.finished()

    async def test_to_an_http_1_0_client_too(self):
        seen = asyncio.Event()

        async def script(peer):
            await peer.head()
            await peer.send(CHUNKED + b"5\r\nline\n\r\n")
            await seen.wait()
            await peer.send(b"5\r\nlast\n\r\n0\r\n\r\n")

        async with gateway_before(script) as (_, client):
            await client.send(b"GET / HTTP/1.0\r\n\r\n")
            await client.head()
            assert await client.exactly(5) == b"line\n"
            seen.set()
            assert await client.reader.read() == b"last\n"

    async def test_an_http_1_0_client_sees_that_it_is_not_whole_as_growd_leaves(self):
        async def script(peer):
            await peer.head()
            await peer.send(CHUNKED + b"5\r\nline\n\r\n")
            await peer.gone()

        async with RawUpstream(script) as upstream, AsyncExitStack() as stack:
            async with front_door(upstream.url) as door:
                client = await stack.enter_async_context(raw_client(door.port))
                await client.send(b"GET / HTTP/1.0\r\n\r\n")
                await client.until(b"line\n")
            with pytest.raises(ConnectionResetError):
                await client.reader.read()

    async def test_an_upload_passes_at_once(self):
        seen = asyncio.Event()

        async def script(peer):
            await peer.head()
            assert await peer.exactly(3) == b"abc"
            seen.set()
            await peer.gone()

        async with RawUpstream(script) as upstream, gateway_to(upstream.url) as port:
            async with raw_client(port) as client:
                await client.send(PUT + b"abc")
                await seen.wait()
            await upstream.finished()


class TestClientGoesAway:
    """The database sees its request end; `RawUpstream.finished` waits for that."""

    @pytest.mark.parametrize("leave", [Peer.close, lambda client: asyncio.sleep(0, client.reset())])
    @pytest.mark.parametrize(
        ("request_", "begun"),
        [(GET, b""), (GET, CHUNKED + b"1\r\n\n\r\n"), (GET, ENDLESS + b"abc"), (PUT + b"abc", CHUNKED)],
        ids=["silent", "chunks", "length", "put"],
    )
    async def test_while_it_waits_for_more(self, request_, begun, leave):
        asked = asyncio.Event()

        async def script(peer):
            await peer.head()
            await peer.send(begun)
            asked.set()
            await peer.gone()

        async with gateway_before(script) as (upstream, client):
            await client.send(request_)
            await asked.wait()
            if begun:
                await client.head()
            await leave(client)
            await upstream.finished()

    async def test_while_the_database_pours(self):
        sent = [0]

        async def script(peer):
            await peer.head()
            await peer.send(ENDLESS)
            with pytest.raises(ConnectionError):
                await pour(peer, sent)

        async with gateway_before(script) as (upstream, client):
            await client.send(GET)
            await client.head()
            await client.exactly(len(BLOCK))
            await client.close()
            await upstream.finished()

    async def test_it_is_not_logged(self, caplog):
        caplog.set_level(logging.INFO)
        asked = asyncio.Event()

        async def script(peer):
            await peer.head()
            asked.set()
            await peer.send(ENDLESS + BLOCK)
            await peer.gone()

        async with (
            RawUpstream(script) as upstream,
            gateway_to(upstream.url, behind=ClosingDoor) as port,
            raw_client(port) as client,
        ):
            client.writer.transport.pause_reading()
            await client.send(GET)
            await asked.wait()
            await upstream.finished()
            client.reset()
        assert caplog.messages == []


class ClosingDoor:
    """A connection is closing before the answer comes, and not closed: the client does not read."""

    def __init__(self, gateway):
        self.gateway = gateway

    async def handle(self, request):
        assert request.transport is not None
        request.transport.write(bytes(BOUND))
        request.transport.close()
        return await self.gateway.handle(request)


class TestMemory:
    async def test_a_client_that_does_not_read_stops_the_database(self):
        sent = [0]

        async def script(peer):
            await peer.head()
            await peer.send(ENDLESS)
            await pour(peer, sent)

        async with gateway_before(script) as (_, client):
            client.writer.transport.pause_reading()
            await client.send(GET)
            assert 0 < await at_rest(lambda: sent[0]) < BOUND
            client.writer.transport.resume_reading()
            await client.head()
            received = await client.exactly(2 * BOUND)
            assert received == b"x" * len(received)

    async def test_a_database_that_does_not_read_stops_the_client(self):
        sent = [0]

        async def script(peer):
            await peer.head()
            peer.writer.transport.pause_reading()
            await asyncio.Event().wait()

        async with gateway_before(script) as (_, client):
            await client.send(PUT)
            pouring = asyncio.create_task(pour(client, sent), name="pour")
            assert 0 < await at_rest(lambda: sent[0]) < BOUND
            pouring.cancel()
            await asyncio.wait([pouring])
            client.reset()

    async def test_a_client_that_never_reads_is_let_go(self):
        async def script(peer):
            await peer.head()
            await peer.send(ENDLESS)
            with pytest.raises(ConnectionError):
                await pour(peer, [0])

        async with gateway_before(script, stall_limit=0.1) as (upstream, client):
            client.writer.transport.pause_reading()
            await client.send(GET)
            await upstream.finished()

    async def test_a_database_that_never_reads_is_told_of(self):
        async def script(peer):
            await peer.head()
            peer.writer.transport.pause_reading()
            await asyncio.Event().wait()

        async with gateway_before(script, stall_limit=0.1) as (_, client):
            await client.send(PUT)
            pouring = asyncio.create_task(pour(client, [0]), name="pour")
            answer = await client.answer()
            pouring.cancel()
            await asyncio.wait([pouring])
        assert answer.status == 502
