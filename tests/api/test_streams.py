"""`topic_stream` over real sockets: formats, the newest first, slow clients, and clients that go away."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from growd.api.broadcast import AT_ONCE
from growd.api.operation import Limits
from growd.api.stream_formats import FORMATS, negotiate
from growd.api.stream_formats import document as encode
from growd.bus.messages import Quality
from support.daemon import CO2, serving
from support.raw_http import raw_client
from support.slow_client import unread
from support.waiting import PATIENCE_S, until

STRING = "environment_1/desired/recipe_start"
LINES = "application/x-ndjson"
EVENTS = "text/event-stream"
PLAIN = "text/plain"


class Stream:
    """An open stream; `head` are its status line and headers."""

    def __init__(self, client, head, chunks):
        self.client = client
        self.head = head
        self._chunks = chunks

    async def next(self):
        """What was written at one time."""
        return (await anext(self._chunks)).removesuffix(b"\r\n")

    async def end(self):
        """The rest, until the stream ends as it should; fails if it breaks off."""
        return [piece async for piece in self._chunks]


@asynccontextmanager
async def stream(daemon, topic=CO2, query="", **headers):
    async with raw_client(daemon.port) as client:
        lines = [f"GET {daemon.api.prefix}/topic_stream/{topic}{query} HTTP/1.1", "Host: x"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await client.send(("\r\n".join(lines) + "\r\n\r\n").encode())
        yield Stream(client, await client.head(), client.chunks())


async def open_streams(daemon, count):
    """Wait until so many streams are open."""
    await until(lambda: len(daemon.api.streams) == count)


def numbers(lines):
    """The numbers of the messages in what was written at one time."""
    return [json.loads(line)["number"] for line in lines.splitlines()]


async def kept(client, number):
    """Wait until this message waits for the client."""
    await until(lambda: client._waiting and b'"number":%d}' % number in client._waiting[-1].text)


def only_client(daemon):
    (broadcast,) = daemon.api._answers._broadcasts.values()
    (client,) = broadcast._clients
    return client


class TestFormats:
    async def test_json_lines_by_default(self, daemon):
        daemon.sensor[CO2].publish(412.5, time=1.5)
        async with stream(daemon) as lines:
            assert lines.head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"\r\nContent-Type: application/x-ndjson\r\n" in lines.head
            assert b"\r\nCache-Control: no-store\r\n" in lines.head
            document = {"value": 412.5, "time": 1.5, "quality": "ok", "node": "scd30", "number": 1}
            first = await lines.next()
            assert first.endswith(b"}\n")
            assert json.loads(first) == document
            daemon.sensor[CO2].publish(413, time=2)
            assert json.loads(await lines.next()) == {**document, "value": 413.0, "time": 2.0, "number": 2}

    async def test_plain_text_is_the_bare_value(self, daemon):
        async with stream(daemon, Accept=PLAIN) as text:
            assert b"\r\nContent-Type: text/plain; charset=utf-8\r\n" in text.head
            daemon.sensor[CO2].publish(8_000)
            assert await text.next() == b"8000.0\n"
            daemon.sensor[CO2].publish(None, Quality.FAULT)
            assert await text.next() == b"null\n"

    async def test_a_string_never_breaks_out_of_its_frame(self, daemon):
        for value in ("two\nlines", "two\r\nlines\r", "\n\nid: 5\ndata: x\n\n", "ü\u2028\x00"):
            daemon.sensor[STRING].publish(value)
            async with stream(daemon, STRING) as lines, stream(daemon, STRING, Accept=EVENTS) as events:
                line = await lines.next()
                assert line.count(b"\n") == 1
                assert json.loads(line)["value"] == value
                _, event, rest = (await events.next()).split(b"\n\n")
                assert rest == b""
                assert b"\r" not in event
                assert json.loads(event.partition(b"\ndata: ")[2])["value"] == value
            async with stream(daemon, STRING, Accept=PLAIN) as text:
                expected = value.replace("\r", "\\r").replace("\n", "\\n") + "\n"
                assert await text.next() == expected.encode()

    def test_the_format_that_accept_prefers(self):
        for expected, *accepts in (
            (
                LINES,
                *("", "*/*", "application/json", "application/json, text/plain, */*", ",;,;q="),
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            ),
            (
                EVENTS,
                *(EVENTS, "text/event-stream, */*", "TEXT/Event-Stream ; charset=utf-8", "text/*"),
                "text/plain;q=0.4, text/event-stream;q=0.5",
                "application/x-ndjson;q=0, */*;q=0.1",
                "text/plain;q=high, text/event-stream;q=0.1",
                "text/plain;q=1, text/event-stream;q=1e9",
            ),
            (
                PLAIN,
                "text/event-stream;q=0.4, text/plain;q=0.5",
                "application/x-ndjson;q=0.1, text/plain",
                "text/*, text/event-stream;q=0.1",
                "text/plain;q=0.5, */*;q=0.1",
                "text/plain;q=0.9, text/event-stream;q=nan",
            ),
        ):
            for accept in accepts:
                assert negotiate(accept, FORMATS).content_type.partition(";")[0] == expected, accept

    async def test_a_format_that_no_stream_has_is_refused(self, daemon):
        for accept in ("image/png", "application/x-ndjson;q=0", "text/html, */*;q=0"):
            answer = await daemon.ask("GET", f"/topic_stream/{CO2}", headers={"Accept": accept})
            assert answer.status == 406
            sentence = "must be one of application/x-ndjson, text/event-stream, text/plain"
            assert sentence in answer.json["ERROR"]

    async def test_accept_may_come_in_several_headers(self, daemon):
        daemon.sensor[CO2].publish(1)
        async with stream(daemon, Accept="text/plain;q=0.1\r\nAccept: text/event-stream") as events:
            assert (await events.next()).startswith(b"retry: ")


class TestBeginning:
    async def test_the_newest_message_can_be_left_out(self, daemon):
        daemon.sensor[CO2].publish(1)
        async with stream(daemon, query="?latest=false") as lines:
            daemon.sensor[CO2].publish(2)
            assert json.loads(await lines.next())["value"] == 2.0

    async def test_a_client_that_comes_back_is_not_sent_what_it_has_seen(self, daemon):
        """Whatever had the same number before a restart is something else."""
        for value in (1, 2):
            daemon.sensor[CO2].publish(value, time=1_700_000_000.5 + value)
        for other in ("1-1700000001500", "2-1600000002500", "x"):
            async with stream(daemon, Accept=EVENTS, Last_Event_ID=other) as events:
                assert b"id: 2-" in await events.next()
        async with stream(daemon, Accept=EVENTS, Last_Event_ID="2-1700000002500") as events:
            assert await events.next() == b"retry: 2000\n\n"
            daemon.sensor[CO2].publish(3)
            assert b"id: 3-" in await events.next()


class TestHeartbeats:
    @pytest.fixture
    async def daemon(self):
        async with serving(Limits(heartbeat_s=0.01)) as running:
            yield running

    async def test_events_have_a_comment_while_nothing_happens(self, daemon):
        async with stream(daemon, Accept=EVENTS) as events:
            assert await events.next() == b"retry: 2000\n\n"
            assert [await events.next() for _ in range(3)] == [b":\n\n"] * 3
            daemon.sensor[CO2].publish(1)
            while (text := await events.next()) == b":\n\n":
                pass
            assert text.startswith(b"id: 1-")

    async def test_the_others_have_none_as_it_could_be_taken_for_a_message(self, daemon):
        async with (
            stream(daemon, Accept=LINES) as lines,
            stream(daemon, Accept=PLAIN) as plain,
            stream(daemon, Accept=EVENTS) as events,
        ):
            for _ in range(3):
                await events.next()
            daemon.sensor[CO2].publish(1)
            assert len(await lines.next()) > 1
            assert await plain.next() == b"1.0\n"


class TestManyClients:
    @pytest.fixture
    def encoded(self, monkeypatch):
        """The numbers of the messages that were encoded, in order."""
        numbers = []

        def noted(message):
            numbers.append(message.number)
            return encode(message)

        monkeypatch.setattr("growd.api.stream_formats.document", noted)
        return numbers

    async def test_a_message_is_encoded_once_for_all_who_stream_it_in_a_format(self, daemon, encoded):
        async with AsyncExitStack() as stack:
            lines = [await stack.enter_async_context(stream(daemon)) for _ in range(10)]
            events = [await stack.enter_async_context(stream(daemon, Accept=EVENTS)) for _ in range(5)]
            await open_streams(daemon, 15)
            for number in (1, 2):
                daemon.sensor[CO2].publish(number)
                assert {json.loads(await each.next())["number"] for each in lines} == {number}
            for each in events:
                text = await each.next()
                while b"id: 2" not in text:
                    text += await each.next()
                assert text.count(b"id: 1") == 1
        assert sorted(encoded) == [1, 1, 2, 2]

    async def test_messages_that_come_fast_share_a_write_when_many_stream(self, daemon, monkeypatch):
        monkeypatch.setattr("growd.api.broadcast.LATEST_S", 1e6)
        monkeypatch.setattr("growd.api.broadcast.PAUSE", 1e12)
        async with AsyncExitStack() as stack:
            many = [await stack.enter_async_context(stream(daemon)) for _ in range(AT_ONCE + 1)]
            await open_streams(daemon, AT_ONCE + 1)
            daemon.sensor[CO2].publish(1)
            assert {json.loads(await each.next())["number"] for each in many} == {1}
            for value in range(2, 501):  # more than a client's queue holds: those who keep up lose none
                daemon.sensor[CO2].publish(value)
            # one who joins is not sent again what came before it, so the others get it now
            late = await stack.enter_async_context(stream(daemon))
            for each in many:
                assert numbers(await each.next()) == [*range(2, 501)]
            assert numbers(await late.next()) == [500]

    @pytest.mark.parametrize(("count", "pause"), [(AT_ONCE, 1e12), (AT_ONCE + 1, 0.0)])
    async def test_few_get_each_message_at_once_and_many_where_writes_take_little_time(
        self, daemon, monkeypatch, count, pause
    ):
        monkeypatch.setattr("growd.api.broadcast.LATEST_S", 1e6)
        monkeypatch.setattr("growd.api.broadcast.PAUSE", pause)
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(stream(daemon)) for _ in range(count)]
            await open_streams(daemon, count)
            for number in (1, 2, 3):
                daemon.sensor[CO2].publish(number)
                for each in opened:
                    assert numbers(await each.next()) == [number]

    async def test_those_who_stay_lose_nothing_when_others_come_and_go(self, daemon):
        async with stream(daemon) as steady:
            for number in range(1, 20):
                async with stream(daemon) as other:
                    daemon.sensor[CO2].publish(number)
                    assert numbers(await steady.next()) == [number]
                    while number not in numbers(await other.next()):
                        pass
        await open_streams(daemon, 0)
        assert daemon.bus.topics.get(CO2).subscribers == []


class TestSlowClients:
    async def test_heartbeats_do_not_push_messages_out(self):
        limits = Limits(stream_queue=4, heartbeat_s=0.01)
        async with serving(limits) as daemon, stream(daemon, STRING, Accept=EVENTS) as slow:
            await slow.next()  # retry
            client = only_client(daemon)
            client._protocol.pause_writing()  # as asyncio does when the connection takes no more
            for _ in range(10):
                daemon.sensor[STRING].publish("x")
            await until(lambda: client._dropped)
            waiting, dropped = list(client._waiting), client._dropped
            async with stream(daemon, STRING, Accept=EVENTS) as reading:
                while b":\n\n" not in await reading.next():
                    pass
            assert (list(client._waiting), client._dropped) == (waiting, dropped)

    async def test_one_loses_its_own_oldest_messages_and_is_told_how_many(self):
        async with serving(Limits(stream_queue=8)) as daemon, not_reading(daemon) as (slow, client):
            published = 0
            async with stream(daemon, STRING) as fast:
                while client._dropped < 20:
                    published += 1
                    daemon.sensor[STRING].publish("x" * 50_000)
                    assert json.loads(await fast.next())["number"] == published
            assert len(client._waiting) == 8
            text = bytearray()
            while not text.endswith(b'"number":%d}\n' % published):
                text += await slow.reader.read(1_000_000)
        documents = [json.loads(line) for line in text.splitlines()]
        assert sum(document.get("dropped", 0) for document in documents) >= 20
        assert [document["number"] for document in documents[-8:]] == [*range(published - 7, published + 1)]
        expected = 1
        for document in documents:  # each message, or in its place that it was dropped
            assert document.get("number", expected) == expected
            expected += document.get("dropped", 1)
        assert expected == published + 1

    @pytest.mark.parametrize("burst", [2, 4096])
    async def test_each_message_is_sent_or_told_of_wherever_it_was_dropped(self, monkeypatch, burst):
        monkeypatch.setattr("growd.api.stream_answers.BURST", burst)
        limits = Limits(stream_queue=2)
        async with serving(limits) as daemon, stream(daemon, query="?latest=false") as lines:
            await open_streams(daemon, 1)
            daemon.sensor[CO2].publish(0)
            await lines.next()
            client = only_client(daemon)
            client._protocol.pause_writing()  # as asyncio does when the connection takes no more
            for last in (11, 21, 31):
                for value in range(last - 10, last):
                    daemon.sensor[CO2].publish(value)
                await kept(client, last)
            client._protocol.resume_writing()
            documents = []
            while {"number": 31}.items() - (documents[-1] if documents else {}).items():
                documents += [json.loads(line) for line in (await lines.next()).splitlines()]
        expected = 2
        for document in documents:
            assert document.get("number", expected) == expected
            expected += document.get("dropped", 1)
        assert expected == 32

    @pytest.mark.parametrize(
        ("accept", "told"),
        [
            (LINES, b'{"dropped":2}\n{"value":3.0,'),
            (EVENTS, b'event: dropped\ndata: {"dropped":2}\n\nid: %d-'),
            (PLAIN, b"# 2 dropped\n3.0\n"),
        ],
    )
    async def test_it_is_told_in_each_format_and_each_time(self, daemon, accept, told, monkeypatch):
        monkeypatch.setattr("growd.api.stream_answers.BURST", 1)
        async with stream(daemon, Accept=accept) as frames:
            if accept == EVENTS:
                await frames.next()  # retry
            for last in (3, 6):
                for value in (1, 2, 3):
                    daemon.sensor[CO2].publish(value)
                assert (await frames.next()).startswith(told.replace(b"%d", b"%d" % last))


@asynccontextmanager
async def not_reading(daemon):
    """A client of a stream of strings that does not read, and how the daemon sees it."""
    async with unread(daemon.port, f"{daemon.api.prefix}/topic_stream/{STRING}", LINES) as slow:
        yield slow, only_client(daemon)


async def overflow(daemon, client):
    """Publish until a client that does not read has lost a message."""
    while not client._dropped:
        daemon.sensor[STRING].publish("x" * 50_000)
        await asyncio.sleep(0)


class TestEnd:
    @pytest.mark.parametrize("accept", [LINES, EVENTS])
    async def test_a_client_that_goes_leaves_nothing_even_when_the_topic_is_silent(self, daemon, accept):
        for how in ("close", "reset"):
            async with stream(daemon, Accept=accept) as opened:
                await open_streams(daemon, 1)
                assert daemon.bus.topics.get(CO2).subscribers == ["http"]
                if how == "reset":
                    opened.client.reset()
                else:
                    await opened.client.close()
                await open_streams(daemon, 0)
            assert daemon.bus.topics.get(CO2).subscribers == []
            assert daemon.api.node.information()["subs"] == []

    async def test_a_client_that_does_not_read_goes_or_does_not_hold_up_the_server(self, daemon, caplog):
        async with not_reading(daemon) as (slow, client):
            await overflow(daemon, client)
            slow.reset()
            await open_streams(daemon, 0)
        assert daemon.bus.topics.get(STRING).subscribers == []
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []
        async with not_reading(daemon) as (slow, client):
            await overflow(daemon, client)
            await daemon.server.close()
            assert len(daemon.api.streams) == 0
            assert daemon.server.listener.requests == 0
            await slow.gone()

    async def test_streams_end_whole_with_the_server_and_their_node(self, daemon, monkeypatch):
        monkeypatch.setattr("growd.server.listener.CLOSE_S", PATIENCE_S)  # after which they are broken off
        daemon.sensor[CO2].publish(1)
        async with stream(daemon) as lines, stream(daemon, Accept=EVENTS) as events:
            await open_streams(daemon, 2)
            await daemon.server.close()
            assert len(await lines.end()) == len(await events.end()) == 1
        assert daemon.bus.topics.get(CO2).subscribers == []
        async with serving() as other, stream(other) as lines:
            await open_streams(other, 1)
            other.api.node.close()
            assert await lines.end() == []

    async def test_one_that_fails_breaks_off_and_holds_no_second_answer(self, daemon, monkeypatch):
        async def failing(client):
            await client._writer.drain()
            client._transport.write(written)
            raise RuntimeError("something unforeseen")

        monkeypatch.setattr("growd.api.broadcast.BroadcastClient.run", failing)
        for written in (b"", b"1\r\n\n\r\n"):
            async with stream(daemon) as lines:
                assert b" 200 OK" in lines.head
                assert await lines.client.reader.read() == written
            await open_streams(daemon, 0)

    async def test_who_comes_after_a_broadcast_ended_is_served_by_another(self, daemon):
        async with stream(daemon) as slow:
            await open_streams(daemon, 1)
            (broadcast,) = daemon.api._answers._broadcasts.values()
            only_client(daemon)._protocol.pause_writing()  # it can't leave yet
            daemon.sensor[CO2].publish(1)
            broadcast._task.cancel()
            await asyncio.wait([broadcast._task])
            async with stream(daemon) as late:
                assert numbers(await late.next()) == [1]
                daemon.sensor[CO2].publish(2)
                assert numbers(await late.next()) == [2]
            slow.client.reset()
            await open_streams(daemon, 0)


class TestRefusals:
    async def test_more_streams_than_are_allowed(self):
        async with serving(Limits(streams=2)) as daemon, stream(daemon), stream(daemon) as second:
            await open_streams(daemon, 2)
            for path in (f"/topic_stream/{CO2}", f"/topic_data/{CO2}"):
                answer = await daemon.ask("GET", path)
                assert (answer.status, answer.json["error"]) == (429, "too_many_streams")
            await second.client.close()
            await open_streams(daemon, 1)
            async with stream(daemon) as third:
                assert third.head.startswith(b"HTTP/1.1 200 OK\r\n")
