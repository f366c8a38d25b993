"""The clients of the benchmarks `hostile` and `streams` send and count what they claim."""

import asyncio
import os
import socket
import time
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing import resource_tracker

import hostile
import pytest
from hostile import Attack, under_way
from measuring import Process
from raw_client import AnswerError, Connection
from stream_client import Listeners

from support.stand_in import StandIn

pytestmark = pytest.mark.bench


@pytest.fixture(autouse=True, scope="module")
def tracker():
    """Start the process that multiprocessing keeps until the end, before the first test."""
    resource_tracker.ensure_running()


@asynccontextmanager
async def accepting(buffer=None):
    """The port of a server that answers nothing, and a queue of its connections."""
    came = asyncio.Queue()
    listening = socket.create_server(("127.0.0.1", 0))
    if buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    opened = []

    def keep(reader, writer):
        opened.append(writer)
        came.put_nowait((reader, writer))

    server = await asyncio.start_server(keep, sock=listening)
    try:
        yield listening.getsockname()[1], came
    finally:
        server.close()
        for writer in opened:
            writer.transport.abort()
        await server.wait_closed()


@asynccontextmanager
async def attacking(port, run, **arguments):
    """Run the attack around the body."""
    attack = under_way(Attack(partial(run, **arguments), "an attack", 1, 1.0), port)
    await asyncio.to_thread(attack.__enter__)
    try:
        yield
    except BaseException as error:
        await asyncio.to_thread(attack.__exit__, type(error), error, None)
        raise
    await asyncio.to_thread(attack.__exit__, None, None, None)


async def test_slow_heads_never_end():
    async with accepting() as (port, came), attacking(port, hostile.dribble, count=3, turn_s=0.003):
        for _ in range(3):
            reader, _ = await came.get()
            said = await reader.readexactly(len(hostile.GET) + 100)
            assert said.startswith(hostile.GET[:-2] + b"X: aaa")
            assert b"\r\n\r\n" not in said


async def test_an_idle_connection_sends_nothing_and_is_opened_again():
    async with accepting() as (port, came), attacking(port, hostile.idle, count=1, turn_s=0.003):
        for _ in range(3):
            reader, writer = await came.get()
            writer.write_eof()
            assert await reader.read() == b""


async def test_a_slow_stream_is_hardly_read():
    async with accepting(4_096) as (port, came), attacking(port, hostile.slow_streams, count=1):
        reader, writer = await came.get()
        assert await reader.readuntil(b"\r\n\r\n") == hostile.head("GET", hostile.STREAM)
        taken = 0
        while writer.transport.get_write_buffer_size() == 0:
            writer.write(b"a" * 512)
            taken += 512
        assert taken < 32_768


@pytest.mark.parametrize(("run", "one"), [(hostile.deaf, hostile.LIST), (hostile.pipeline, hostile.GET)])
async def test_a_flood_consists_of_whole_requests(run, one):
    async with accepting() as (port, came), attacking(port, run):
        reader, _ = await came.get()
        assert await reader.readexactly(20_000 * len(one)) == one * 20_000


async def test_a_large_body_is_sent_again_after_a_refusal():
    async with accepting() as (port, came), attacking(port, hostile.large_bodies, count=1):
        reader, writer = await came.get()
        for _ in range(2):
            assert await reader.readexactly(len(hostile.LARGE)) == hostile.LARGE
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()
        reader, _ = await came.get()
        assert await reader.readexactly(10) == hostile.LARGE[:10]


async def test_an_attack_that_ends_early_is_an_error():
    async with accepting() as (port, came):
        with pytest.raises(RuntimeError, match="the attack ended with status 1: it asks"):
            await asyncio.to_thread(until_it_ends, port, came, asyncio.get_running_loop())


def until_it_ends(port, came, loop):
    with under_way(Attack(hostile.pipeline, "it asks", 1, 1.0), port) as process:
        _, writer = asyncio.run_coroutine_threadsafe(came.get(), loop).result()
        loop.call_soon_threadsafe(writer.transport.abort)
        process.join(30)


async def test_a_refusal_is_an_error():
    async with accepting() as (port, came):
        with Connection(port) as connection:
            connection.send("GET", "/")
            _, writer = await came.get()
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}")
            with pytest.raises(AnswerError, match="503"):
                await asyncio.to_thread(connection.check_answer)


# --- Streams

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(*numbers):
    lines = b"".join(b'{"value":1,"time":%d,"number":%d}\n' % (number, number) for number in numbers)
    return b"%x\r\n%b\r\n" % (len(lines), lines)


async def counted(*streams):
    """What `Listeners` counts on these streams, each sent a few bytes at a time."""
    left = list(streams)

    async def answer(reader, writer):
        data = HEAD + left.pop()
        await reader.readuntil(b"\r\n\r\n")
        for begin in range(0, len(data), 7):
            writer.write(data[begin : begin + 7])
            await writer.drain()
        await reader.read()
        writer.close()

    def listen(port):
        with Listeners(Process(os.getpid(), port), "/", len(streams)) as listeners:
            listeners.settle()
            while listeners.delivered(0, time.time()).published < 10:
                listeners.listen(0.01)
            return listeners.delivered(0, time.time())

    async with StandIn(answer) as server:
        return await asyncio.to_thread(listen, server.port)


async def test_messages_are_counted_on_each_stream():
    both = chunk(1) + chunk(2, 3, 4, 5, 6) + chunk(7, 8, 9, 10)
    delivery = await counted(both, both)
    assert (delivery.published, delivery.lost, len(delivery.ages_s)) == (10, 0, 20)
    assert delivery.rate == 2  # by the times of the messages


async def test_missing_and_repeated_messages_count_as_lost():
    delivery = await counted(
        chunk(*range(1, 11)), chunk(1, 2, 3, 4) + chunk(6, 7, 8, 9, 10), chunk(1, 2, 3, 4, 5, 6, 7, 7, 8, 10)
    )
    assert delivery.lost == 1 + 2
