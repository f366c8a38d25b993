"""Streams of `growd_client`: what a reconnection repeats and misses, and what the caller is told."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from growd.api.operation import Limits
from growd_client import (
    AsyncGrowd,
    Disconnected,
    Dropped,
    Growd,
    NotFoundError,
    NotReachedError,
    Pauses,
    Quality,
    Reconnected,
    UnavailableError,
    UsageError,
)
from growd_client.following import EventLines, Following
from support.daemon import CO2, LIGHT, serving
from support.stand_in import READ_LIMIT, StandIn
from support.waiting import PATIENCE_S, until

SHORT = Pauses(0.01, 0.05)
DROPPED = b'event: dropped\ndata: {"dropped":3}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 2000\n\n"


class Stream:
    """What a stream of either client yields, and what it tells."""

    def __init__(self, following, client):
        self._following = following
        self._client = client
        self.told = []

    async def next(self):
        async with asyncio.timeout(PATIENCE_S):
            if isinstance(self._client, AsyncGrowd):
                return await anext(self._following)
            return await asyncio.to_thread(next, self._following)

    async def close(self):
        if isinstance(self._client, AsyncGrowd):
            await self._following.aclose()
            await self._client.close()
        else:
            self._following.close()
            self._client.close()


@asynccontextmanager
async def following(kind, url, *topics, **options):
    timeout_s = options.pop("timeout_s", PATIENCE_S)
    client = (Growd if kind == "blocking" else AsyncGrowd)(url, pauses=SHORT, timeout_s=timeout_s)
    stream = Stream(None, client)
    stream._following = client.follow(*topics, on_event=stream.told.append, **options)
    try:
        yield stream
    finally:
        await stream.close()


def through(daemon, requests):
    """A proxy to the daemon that the test can cut; `requests` are the heads that came."""

    async def enter(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        requests.append(head)
        inside, answer = await asyncio.open_connection("127.0.0.1", daemon.port)
        try:
            answer.write(head)
            while part := await inside.read(READ_LIMIT):
                writer.write(part)
        finally:
            answer.close()

    return StandIn(enter)


async def test_a_stream_begins_with_the_newest_message_of_each_topic_or_with_none(kind, daemon):
    daemon.sensor[CO2].publish(400.0)
    daemon.sensor[LIGHT].publish(None, Quality.STALE)
    async with following(kind, daemon.origin, "/" + CO2, LIGHT) as stream:
        first, second = await stream.next(), await stream.next()
        assert (first.topic, first.value, first.number) == (CO2, 400.0, 1)
        assert (second.topic, second.value, second.quality) == (LIGHT, None, "stale")
        daemon.sensor[CO2].publish(401.0)
        assert (await stream.next()).value == 401.0
        assert stream.told == []
    await until(lambda: not len(daemon.api.streams))
    async with following(kind, daemon.origin, CO2, latest=False) as stream:
        first = asyncio.create_task(stream.next())
        await until(lambda: len(daemon.api.streams))
        daemon.sensor[CO2].publish(402.0)
        assert (await first).value == 402.0


async def test_a_broken_connection_repeats_nothing_and_misses_no_newest_message(kind, daemon):
    requests = []
    daemon.sensor[CO2].publish(400.0)
    daemon.sensor[LIGHT].publish(5_000.0)
    async with through(daemon, requests) as proxy, following(kind, proxy.url, CO2, LIGHT) as stream:
        await stream.next()
        await stream.next()
        await proxy.down()
        for value in (401.0, 402.0):
            daemon.sensor[CO2].publish(value)
        await proxy.up()
        message = await stream.next()
        assert (message.topic, message.value, message.number) == (CO2, 402.0, 3)
        daemon.sensor[LIGHT].publish(6_000.0)
        assert (await stream.next()).value == 6_000.0
    assert [type(event) for event in stream.told] == [Disconnected, Reconnected]
    assert b"last-event-id" not in requests[0].lower()
    assert all(b"last-event-id" in request.lower() for request in requests[1:])


async def test_a_restarted_daemon_is_followed_again(kind, own_port):
    async with following(kind, f"http://127.0.0.1:{own_port}", CO2) as stream:
        async with serving(port=own_port) as daemon:
            daemon.sensor[CO2].publish(400.0)
            assert (await stream.next()).value == 400.0
        again = asyncio.create_task(stream.next(), name="next")
        await until(lambda: stream.told)
        async with serving(port=own_port) as daemon:
            daemon.sensor[CO2].publish(500.0)
            assert (await again).value == 500.0
    assert [type(event) for event in stream.told] == [Disconnected, Reconnected]


def scripted(*answers):
    """A server that gives these answers to one connection after the other; an empty one keeps it open."""
    requests = []
    waiting = iter(answers)

    async def serve(reader, writer):
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        answer = next(waiting)
        writer.write(answer)
        if not answer.endswith(b"id: open\n\n"):
            writer.close()

    return StandIn(serve), requests


def event(value, identifier="a-1"):
    text = f'{{"topic": "a", "value": {value}, "time": 1.0, "quality": "ok", "node": "n", "number": 1}}'
    return f"id: {identifier}\ndata: {text}\n\n".encode()


def refused(status, code):
    body = f'{{"ERROR": "a sentence", "error": "{code}", "reason": "a sentence"}}'
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@pytest.mark.long
async def test_a_silent_connection_without_heartbeats_is_dead(kind):
    server, requests = scripted(HEAD + event(1.0) + b"id: open\n\n", HEAD + event(2.0) + b"id: open\n\n")
    async with server, following(kind, server.url, "a", heartbeat_s=0.1, timeout_s=1.0) as stream:
        assert (await stream.next()).value == 1.0
        assert (await stream.next()).value == 2.0
    assert [type(told) for told in stream.told] == [Disconnected, Reconnected]
    assert b"heartbeat=0.1" in requests[0]
    assert b"Last-Event-ID: open" in requests[1]


async def test_a_connection_that_breaks_within_a_chunk_is_lost_and_dropped_messages_are_told(kind):
    chunked = HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n", 1).removesuffix(
        b"retry: 2000\n\n"
    )
    first = event(1.0)
    part = b"%x\r\n%b\r\nff\r\ndata: {" % (len(first), first)
    beat = b': comment\nevent: heartbeat\ndata: {"time":1.0}\n\n'
    server, _ = scripted(chunked + part, HEAD + DROPPED + beat + event(2.0) + b"id: open\n\n")
    async with server, following(kind, server.url, "a") as stream:
        assert [(await stream.next()).value, (await stream.next()).value] == [1.0, 2.0]
    assert sorted(stream.told, key=lambda told: isinstance(told, Dropped)) == [
        Disconnected("the connection to growd broke"),
        Reconnected(),
        Dropped(3),
    ]


async def test_refusals_that_may_pass_are_waited_out(kind):
    server, requests = scripted(
        HEAD + event(1.0),
        refused("503 Unavailable", "stopping"),
        refused("404 Not Found", "not_found"),
        b"SSH-2.0-OpenSSH\r\n",
        HEAD + b"data: no JSON\n\n",
        HEAD + event(2.0) + b"id: open\n\n",
    )
    async with server, following(kind, server.url, "a") as stream:
        assert (await stream.next()).value == 1.0
        assert (await stream.next()).value == 2.0
    assert len(requests) == 6
    assert stream.told[0] == Disconnected("the connection to growd broke")
    assert [type(told) for told in stream.told[:2]] == [Disconnected, Reconnected]


async def test_a_stream_of_another_program_is_refused_at_first(kind, said):
    server, requests = scripted(HEAD + b"data: no JSON\n\n")
    async with server, following(kind, server.url, "a") as stream:
        with said.raises(NotReachedError):
            await stream.next()
    assert (len(requests), stream.told) == (1, [])


def test_pauses_grow_until_an_event_is_understood():
    stream = Following(["a"], 0.0, 10.0, Pauses(1.0, 64.0), lambda _: None)
    garbage, message = [b"data: no JSON", b""], [*event(1.0).splitlines(), b""]

    def pause_after(lines):
        stream.opened()
        events = EventLines()
        try:
            for line in lines:
                stream.message(events, line)
        except NotReachedError as error:
            return stream.failed(error)
        return stream.ended()

    assert 0.5 <= pause_after(message) <= 1.0
    pauses = [pause_after(garbage) for _ in range(5)]
    assert all(least <= pause <= 2 * least for pause, least in zip(pauses, (1, 2, 4, 8, 16), strict=True))
    assert 0.5 <= pause_after(message) <= 1.0


@pytest.mark.long
async def test_refusals_for_good_end_a_stream(kind):
    later = [refused("404 Not Found", "not_found")] * 20
    server, requests = scripted(HEAD + event(1.0), *later)
    async with server, following(kind, server.url, "a") as stream:
        await stream.next()
        with pytest.raises(NotFoundError, match="a sentence"):
            await stream.next()
    assert len(requests) == 21
    server, _ = scripted(HEAD + event(1.0), refused("406 Not Acceptable", "not_acceptable"))
    async with server, following(kind, server.url, "a") as stream:
        await stream.next()
        with pytest.raises(Exception, match="a sentence") as ended:
            await stream.next()
    assert ended.value.code == "not_acceptable"


async def test_a_first_failure_is_raised(kind, daemon, own_port, said):
    async with following(kind, f"http://127.0.0.1:{own_port}", CO2) as stream:
        with said.raises(NotReachedError):
            await stream.next()
    async with following(kind, daemon.origin, CO2, "environment_1/measured/nothing") as stream:
        with pytest.raises(NotFoundError, match="nothing"):
            await stream.next()
    async with serving(Limits(streams=0)) as full, following(kind, full.origin, CO2) as stream:
        with pytest.raises(UnavailableError):
            await stream.next()
    async with following(kind, daemon.origin) as stream:
        with said.raises(UsageError):
            await stream.next()


async def test_without_a_listener_the_log_has_what_happens(caplog):
    server, _ = scripted(HEAD + event(1.0), HEAD + DROPPED + event(2.0) + b"id: open\n\n")
    async with server, AsyncGrowd(server.url, pauses=SHORT) as client:
        stream = client.follow("a")
        assert [(await anext(stream)).value, (await anext(stream)).value] == [1.0, 2.0]
        await stream.aclose()
    assert [record.getMessage() for record in caplog.records if record.name == "growd_client"] == [
        "the connection to growd broke; reconnecting",
        "read too slowly: dropped 3 messages",
    ]
