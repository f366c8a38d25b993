"""The clients of `bench/hostile.py` do what they say. What growd makes of it is never looked at here."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing import resource_tracker
from types import SimpleNamespace
from typing import TYPE_CHECKING

import hostile
import pytest
from hostile import Attack, under_way
from raw_client import AnswerError, Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.bench

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True, scope="module")
def tracker() -> None:
    """multiprocessing's own process, which it keeps until this one ends, is there before each test."""
    resource_tracker.ensure_running()


@asynccontextmanager
async def accepting(buffer: int | None = None) -> AsyncIterator[tuple[int, asyncio.Queue[Streams]]]:
    """A server that answers nothing: its port, and its connections as they come. `buffer` is the kernel's."""
    came: asyncio.Queue[Streams] = asyncio.Queue()
    listening = socket.create_server(("127.0.0.1", 0))
    if buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    opened = []

    def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
async def attacking(port: int, run: Callable[..., None], **arguments: float) -> AsyncIterator[None]:
    """The attack is under way, and goes on to the end."""
    attack = under_way(Attack(partial(run, **arguments), "an attack", 1, 1.0), port)
    await asyncio.to_thread(attack.__enter__)
    try:
        yield
    except BaseException as error:
        await asyncio.to_thread(attack.__exit__, type(error), error, None)
        raise
    await asyncio.to_thread(attack.__exit__, None, None, None)


async def test_each_of_the_slow_heads_is_a_head_and_never_complete():
    async with accepting() as (port, came), attacking(port, hostile.dribble, count=3, turn_s=0.003):
        for _ in range(3):
            reader, _ = await came.get()
            said = await reader.readexactly(len(hostile.GET) + 100)
            assert said.startswith(hostile.GET[:-2] + b"X: aaa")
            assert b"\r\n\r\n" not in said


async def test_a_slow_head_that_was_refused_is_begun_anew():
    async with accepting() as (port, came), attacking(port, hostile.dribble, count=1, turn_s=0.003):
        for _ in range(3):
            reader, writer = await came.get()
            assert await reader.readexactly(5) == b"GET /"
            writer.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            writer.close()


async def test_an_idle_connection_says_nothing_and_is_opened_again():
    async with accepting() as (port, came), attacking(port, hostile.idle, count=1, turn_s=0.003):
        for _ in range(3):
            reader, writer = await came.get()
            writer.write_eof()
            assert await reader.read() == b""


async def test_a_slow_stream_takes_next_to_nothing():
    async with accepting(4_096) as (port, came), attacking(port, hostile.slow_streams, count=1):
        reader, writer = await came.get()
        assert await reader.readuntil(b"\r\n\r\n") == hostile.head("GET", hostile.STREAM)
        taken = 0
        while writer.transport.get_write_buffer_size() == 0:
            writer.write(b"a" * 512)
            taken += 512
        assert taken < 32_768


@pytest.mark.parametrize(("run", "one"), [(hostile.deaf, hostile.LIST), (hostile.pipeline, hostile.GET)])
async def test_a_flood_is_whole_requests(run: Callable[..., None], one: bytes):
    async with accepting() as (port, came), attacking(port, run):
        reader, _ = await came.get()
        assert await reader.readexactly(20_000 * len(one)) == one * 20_000


def test_a_flood_goes_on_where_the_system_took_no_more():
    near, far = socket.socketpair()
    block = hostile.LIST * 1_000
    said = b""
    with near, far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        flooding = hostile.Flooding(near, block)
        while len(said) < 3 * len(block):
            flooding.send()
            said += far.recv(1 << 20)
    assert said == (block * 4)[: len(said)]


async def test_a_large_body_is_sent_again_after_an_answer_and_after_a_refusal():
    async with accepting() as (port, came), attacking(port, hostile.large_bodies, count=1):
        reader, writer = await came.get()
        for _ in range(2):
            assert await reader.readexactly(len(hostile.LARGE)) == hostile.LARGE
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()
        reader, _ = await came.get()
        assert await reader.readexactly(10) == hostile.LARGE[:10]


async def test_an_attack_that_ends_before_its_time_is_told_of():
    async with accepting() as (port, came):
        with pytest.raises(RuntimeError, match="the attack ended with status 1: it asks"):
            await asyncio.to_thread(until_it_ends, port, came, asyncio.get_running_loop())


def until_it_ends(port: int, came: asyncio.Queue[Streams], loop: asyncio.AbstractEventLoop) -> None:
    with under_way(Attack(hostile.pipeline, "it asks", 1, 1.0), port) as process:
        _, writer = asyncio.run_coroutine_threadsafe(came.get(), loop).result()
        loop.call_soon_threadsafe(writer.transport.abort)
        process.join(30)


def test_an_answer_is_waited_for_since_its_request_was_due_but_not_while_the_client_slept(
    monkeypatch: pytest.MonkeyPatch,
):
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds + 0.064  # the machine had no time for the client

    monkeypatch.setattr(hostile, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    assert hostile.sleep_until(99.0) == 0.0  # the answer before it came late
    assert hostile.sleep_until(101.0) == pytest.approx(0.064)


async def test_a_refusal_is_no_answer():
    async with accepting() as (port, came):
        with Connection(port) as connection:
            connection.send("GET", "/")
            _, writer = await came.get()
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}")
            with pytest.raises(AnswerError, match="503"):
                await asyncio.to_thread(connection.check_answer)
