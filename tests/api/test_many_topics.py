"""`stream` over real sockets: many topics, resumption, throttle, heartbeats, slow clients."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.api.broadcast import AT_ONCE, SEND_BUFFER
from growd.api.many_topics import LastMessages, TopicsProgress
from growd.api.operation import Limits
from growd.bus import Bus
from growd.bus.messages import FLOAT64, Quality
from growd.runtime.clock import RealClock
from support.clock import ManualClock
from support.daemon import CO2, LIGHT, POSITION, open_connections, serving
from support.raw_http import raw_client
from support.slow_client import unread
from support.waiting import PATIENCE_S, until

STRING = "environment_1/desired/recipe_start"
DOOR = "chamber/door_open"
LINES = "application/x-ndjson"
RETRY = "retry: 2000"


class Event:
    """One event: its name, "" for a message, its id, and its data."""

    def __init__(self, text):
        fields = dict(line.split(": ", 1) for line in text.split("\n"))
        self.name = fields.get("event", "")
        self.id = fields.get("id")
        self.data = json.loads(fields["data"])
        assert self.name or fields.keys() == {"id", "data"}

    @property
    def brief(self):
        """The topic and the value; for others the name and the data."""
        return (self.name, self.data) if self.name else (self.data["topic"], self.data["value"])


class Events:
    """An open stream of events."""

    def __init__(self, client, head, chunks):
        self.client = client
        self.head = head
        self._chunks = chunks
        self._begun = False

    async def next(self):
        """The events that were written at one time."""
        *events, rest = (await anext(self._chunks)).decode().split("\n\n")
        assert rest.strip() == ""
        if not self._begun:
            self._begun = True
            assert events.pop(0) == RETRY
        return [Event(each) for each in events]

    async def brief(self):
        return [event.brief for event in await self.next()]

    async def end(self):
        """The rest, until the stream ends as it should."""
        return [piece async for piece in self._chunks]


def target(daemon, *topics, **options):
    query = [("topic", quote(each, safe="")) for each in topics] + [*options.items()]
    return f"{daemon.api.prefix}/stream?" + "&".join(f"{name}={value}" for name, value in query)


@asynccontextmanager
async def opened(daemon, *topics, accept="text/event-stream", last_id=None, **options):
    async with raw_client(daemon.port) as client:
        lines = [f"GET {target(daemon, *topics, **options)} HTTP/1.1", "Host: x", f"Accept: {accept}"]
        lines += [] if last_id is None else [f"Last-Event-ID: {last_id}"]
        await client.send(("\r\n".join(lines) + "\r\n\r\n").encode())
        yield Events(client, await client.head(), client.chunks())


async def open_streams(daemon, count):
    await until(lambda: len(daemon.api.streams) == count)


@pytest.fixture
async def clock():
    return ManualClock()


@pytest.fixture
async def daemon(clock):
    async with serving(clock=clock) as running:
        yield running


class TestBeginning:
    async def test_it_begins_with_the_last_message_of_each_topic(self, daemon):
        for value in (1, 2):
            daemon.sensor[CO2].publish(value, time=value)
        daemon.sensor[POSITION].publish({"x": 1, "y": 2, "z": 3}, time=3)
        async with opened(daemon, DOOR, CO2, POSITION) as events:
            assert events.head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"\r\nContent-Type: text/event-stream\r\n" in events.head
            assert b"\r\nCache-Control: no-store\r\n" in events.head
            co2, position = await events.next()
            assert co2.data == {
                "topic": CO2, "value": 2.0, "time": 2.0, "quality": "ok", "node": "scd30", "number": 2
            }  # fmt: skip
            assert position.brief == (POSITION, {"x": 1.0, "y": 2.0, "z": 3.0})
            daemon.sensor[DOOR].publish(True)
            daemon.sensor[CO2].publish(None, Quality.FAULT)
            daemon.sensor[CO2].publish(3)
            assert await events.brief() == [(DOOR, True), (CO2, None), (CO2, 3.0)]

    async def test_it_begins_with_no_message_on_request(self, daemon):
        daemon.sensor[CO2].publish(1)
        for last_id in (None, "spoilt"):
            async with opened(daemon, CO2, DOOR, latest="false", last_id=last_id) as events:
                assert await events.brief() == []
                daemon.sensor[DOOR].publish(True)
                assert await events.brief() == [(DOOR, True)]
                daemon.sensor[CO2].publish(2)
                assert await events.brief() == [(CO2, 2.0)]

    async def test_lines_of_json_if_accept_asks_for_them(self, daemon):
        daemon.sensor[CO2].publish(1, time=2.5)
        async with opened(daemon, CO2, DOOR, accept=LINES) as lines:
            assert b"\r\nContent-Type: application/x-ndjson\r\n" in lines.head
            (line,) = (await anext(lines._chunks)).decode().splitlines()
            assert line == (
                f'{{"topic":"{CO2}","value":1.0,"time":2.5,"quality":"ok","node":"scd30","number":1}}'
            )
            daemon.sensor[DOOR].publish(False)
            daemon.sensor[CO2].publish(2)
            text = await anext(lines._chunks)
            assert [json.loads(line)["topic"] for line in text.splitlines()] == [DOOR, CO2]

    async def test_events_by_default(self, daemon):
        for accept, content_type in (
            ("*/*", b"text/event-stream"),
            ("application/json", b"application/x-ndjson"),
            ("text/html, */*;q=0.1", b"text/event-stream"),
            ("text/event-stream;q=0.1, */*", b"application/x-ndjson"),
        ):
            async with opened(daemon, CO2, accept=accept) as events:
                assert b"\r\nContent-Type: %b\r\n" % content_type in events.head

    async def test_names_may_have_a_slash_or_be_those_of_the_control_panel(self, daemon):
        daemon.sensor[CO2].publish(1)
        panel = "environments/environment_1/air_carbon_dioxide/measured"
        async with opened(daemon, f"/{CO2}", CO2, panel) as events:
            assert await events.brief() == [(CO2, 1.0)]
            daemon.sensor[CO2].publish(2)
            assert await events.brief() == [(CO2, 2.0)]

    async def test_a_message_is_encoded_once_for_all(self, daemon):
        message = daemon.sensor[CO2].publish(1)
        last = LastMessages()
        last.version(daemon.bus.topics.get(CO2))
        assert last.text(message) is last.text(message)


async def begins_with(daemon, *topics, last_id=None):
    """What a stream begins with."""
    async with opened(daemon, *topics, last_id=last_id) as events:
        return await events.brief()


class TestResumption:
    TOPICS = (CO2, DOOR, LIGHT)

    async def test_after_each_event_only_what_came_later_is_sent(self, daemon):
        daemon.sensor[CO2].publish(1)
        daemon.sensor[DOOR].publish(True)
        async with opened(daemon, *self.TOPICS) as events:
            received = await events.next()
            for value in (2, 3):
                daemon.sensor[LIGHT].publish(value)
                received += await events.next()
            daemon.sensor[CO2].publish(4)
            daemon.sensor[CO2].publish(5)
            received += await events.next()
        co2, light = (CO2, 5.0), (LIGHT, 3.0)
        expected = [[(DOOR, True), light, co2], [light, co2], [light, co2], [co2], [co2], []]
        assert [await begins_with(daemon, *self.TOPICS, last_id=each.id) for each in received] == expected

    async def test_all_last_messages_after_a_restart(self, daemon):
        daemon.sensor[CO2].publish(1)
        async with opened(daemon, CO2) as events:
            (event,) = await events.next()
        async with serving() as other:
            other.sensor[CO2].publish(7)
            assert await begins_with(other, CO2, last_id=event.id) == [(CO2, 7.0)]

    async def test_an_id_counts_for_its_topics_only(self, daemon):
        daemon.sensor[CO2].publish(1)
        daemon.sensor[DOOR].publish(True)
        async with opened(daemon, CO2) as events:
            (event,) = await events.next()
        assert await begins_with(daemon, CO2, last_id=event.id) == []
        assert await begins_with(daemon, CO2, DOOR, last_id=event.id) == [(CO2, 1.0), (DOOR, True)]

    async def test_an_id_that_is_none_counts_for_nothing(self, daemon):
        daemon.sensor[CO2].publish(1)
        async with opened(daemon, CO2) as events:
            (event,) = await events.next()
        key = event.id.partition("-")[0]
        for spoilt in ("", "x", "1-1700000002500", key, f"{key}-", f"{key}-x", f"{key}-1-", f"{key}--1"):
            assert await begins_with(daemon, CO2, last_id=spoilt) == [(CO2, 1.0)]

    async def test_a_message_that_the_throttle_holds_back_is_not_had(self, daemon, clock):
        daemon.sensor[CO2].publish(1)
        async with opened(daemon, CO2, DOOR, throttle=5) as events:
            await events.next()
            daemon.sensor[CO2].publish(2)  # held back
            daemon.sensor[DOOR].publish(True)
            (event,) = await events.next()
            assert event.brief == (DOOR, True)
            assert await begins_with(daemon, CO2, DOOR, last_id=event.id) == [(CO2, 2.0)]
            daemon.sensor[CO2].publish(3)
            assert await begins_with(daemon, CO2, DOOR, last_id=event.id) == [(CO2, 3.0)]
            await clock.advance(5)
            (event,) = await events.next()
            assert event.brief == (CO2, 3.0)
            assert await begins_with(daemon, CO2, DOOR, last_id=event.id) == []

    @given(st.integers(0, 2**32))
    def test_a_client_misses_what_it_has_not_had_whatever_happened(self, seed):
        """Several clients of some of the topics get some of the messages, go, and come back."""
        random = Random(seed)
        bus, last = Bus(RealClock()), LastMessages()
        publishers = [bus.node(f"n{number}").advertise(f"t/{number}", FLOAT64) for number in range(6)]
        topics = [each.topic for each in publishers]
        watched = [topics, topics[:3], topics[2:], topics[:1], topics[1:5:2]]
        ids, had = [None] * 5, [dict.fromkeys(each, 0) for each in watched]
        progresses = [TopicsProgress(each, last, None) for each in watched]
        for _ in range(300):
            client = random.randrange(5)
            if random.random() < 0.4:
                random.choice(publishers).publish(1.0)
            elif random.random() < 0.3:
                progresses[client] = TopicsProgress(watched[client], last, ids[client])
            else:
                progress = progresses[client]
                progress.look()
                wanting = [t for t in watched[client] if had[client][t] != t.count]
                missing = [progress.topics[position] for position in progress.missing()]
                assert set(missing) == set(wanting)
                if missing:
                    topic = random.choice(missing)
                    ids[client] = progress.sent(progress.topics.index(topic), topic.last)
                    had[client][topic] = topic.count
        assert len(set(ids)) == 5


def deliver_past(daemon, name, value):
    """Publish a note or a measurement by hand with a time before the last message."""
    topic = daemon.bus.topics.get(name)
    topic.deliver(value, topic.last.time - 100.0, Quality.OK, "http", is_past=True)


class TestMessagesOfThePast:
    async def test_a_throttled_stream_leaves_them_out_and_rests(self, daemon, clock):
        daemon.sensor[CO2].publish(1)
        async with opened(daemon, CO2, DOOR, throttle=1, heartbeat=3600) as events:
            await events.next()
            deliver_past(daemon, CO2, 2.0)
            await clock.advance(5)  # which fails if a task never rests
            daemon.sensor[DOOR].publish(True)
            assert await events.brief() == [(DOOR, True)]

    async def test_a_stream_of_all_messages_has_them_and_rests(self, daemon, clock):
        daemon.sensor[CO2].publish(1)
        async with opened(daemon, CO2, DOOR, heartbeat=3600) as events:
            (first,) = await events.next()
            deliver_past(daemon, CO2, 2.0)
            (past,) = await events.next()
            assert (past.brief, past.id) == ((CO2, 2.0), first.id)
            await clock.advance(5)
            daemon.sensor[DOOR].publish(True)
            assert await events.brief() == [(DOOR, True)]
        # a client that returns does not get the last message again
        assert await begins_with(daemon, CO2, DOOR, last_id=first.id) == [(DOOR, True)]


class TestThrottle:
    async def test_the_first_at_once_then_the_newest_after_its_time(self, daemon, clock):
        async with opened(daemon, CO2, throttle=2, heartbeat=3600) as events:
            await events.next()
            daemon.sensor[CO2].publish(1)
            assert await events.brief() == [(CO2, 1.0)]
            for value in (2, 3):
                daemon.sensor[CO2].publish(value)
                await clock.advance(0.75)
            daemon.sensor[CO2].publish(4)
            await clock.advance(0.5)
            assert await events.brief() == [(CO2, 4.0)]
            daemon.sensor[CO2].publish(5)
            await clock.advance(1.75)
            daemon.sensor[CO2].publish(6)
            await clock.advance(0.25)
            assert await events.brief() == [(CO2, 6.0)]
            await clock.advance(10)
            daemon.sensor[CO2].publish(7)  # long after the last one
            assert await events.brief() == [(CO2, 7.0)]

    async def test_each_topic_has_its_own_time(self, daemon, clock):
        daemon.sensor[CO2].publish(1)
        async with opened(daemon, CO2, DOOR, LIGHT, throttle=1, heartbeat=3600) as events:
            assert await events.brief() == [(CO2, 1.0)]
            daemon.sensor[CO2].publish(2)
            await clock.advance(0.5)
            daemon.sensor[DOOR].publish(True)
            assert await events.brief() == [(DOOR, True)]
            daemon.sensor[DOOR].publish(False)
            await clock.advance(0.5)
            assert await events.brief() == [(CO2, 2.0)]
            await clock.advance(0.5)
            assert await events.brief() == [(DOOR, False)]

    async def test_nothing_is_reported_as_dropped(self, clock):
        async with (
            serving(Limits(stream_queue=1), clock=clock) as daemon,
            opened(daemon, CO2, throttle=1) as events,
        ):
            await events.next()
            for value in range(10):
                daemon.sensor[CO2].publish(value)
            assert await events.brief() == [(CO2, 9.0)]
            for value in range(10, 20):
                daemon.sensor[CO2].publish(value)
            await clock.advance(1)
            assert await events.brief() == [(CO2, 19.0)]


class TestHeartbeats:
    async def test_an_event_with_the_time_when_nothing_else_was_sent(self, daemon, clock):
        async with opened(daemon, CO2, heartbeat=5) as events:
            await events.next()
            await clock.advance(5)
            ((name, data),) = await events.brief()
            assert (name, list(data)) == ("heartbeat", ["time"])
            assert data["time"] == pytest.approx(daemon.bus.clock.time(), abs=PATIENCE_S)
            await clock.advance(4)
            daemon.sensor[CO2].publish(1)
            assert await events.brief() == [(CO2, 1.0)]
            await clock.advance(4.9)
            daemon.sensor[CO2].publish(2)
            assert await events.brief() == [(CO2, 2.0)]
            await clock.advance(10)
            assert [(await events.next())[0].name for _ in range(2)] == ["heartbeat"] * 2

    async def test_messages_that_are_held_back_do_not_count(self, daemon, clock):
        async with opened(daemon, CO2, heartbeat=1, throttle=2.5) as events:
            await events.next()
            daemon.sensor[CO2].publish(1)
            await events.next()
            daemon.sensor[CO2].publish(2)
            await clock.advance(2.5)
            assert [(await events.next())[0].name for _ in range(3)] == ["heartbeat", "heartbeat", ""]

    async def test_each_wait_ends_its_timer(self, daemon, clock):
        async with opened(daemon, CO2) as events:
            await events.next()
            for value in range(5):
                daemon.sensor[CO2].publish(value)
                await events.next()
            await clock.settle()
            assert sum(not timer.done() for _, _, timer in clock._sleepers) == 1

    async def test_the_default_is_one_that_a_client_may_ask_for(self):
        async with serving(Limits(heartbeat_s=0.01)) as daemon:
            document = (await daemon.ask("GET", "/openapi.json")).json
        parameters = document["paths"]["/stream"]["get"]["parameters"]
        (schema,) = (each["schema"] for each in parameters if each["name"] == "heartbeat")
        assert (schema["default"], schema["minimum"]) == (1, 1)

    async def test_the_configured_one_by_default(self, clock):
        async with serving(Limits(heartbeat_s=7), clock=clock) as daemon, opened(daemon, CO2) as events:
            await events.next()
            await clock.advance(7)
            assert (await events.next())[0].name == "heartbeat"
            async with (
                opened(daemon, CO2, heartbeat=100) as later,
                opened(daemon, DOOR, heartbeat=60) as other,
            ):
                await later.next()
                await other.next()
                await clock.advance(60)
                daemon.sensor[CO2].publish(1)
                assert await later.brief() == [(CO2, 1.0)]
                assert (await other.next())[0].name == "heartbeat"


@asynccontextmanager
async def not_reading(daemon, *topics):
    """A client with little room for what it does not read, and its subscription."""
    async with unread(daemon.port, target(daemon, *topics), LINES) as client:
        (subscription,) = daemon.api.streams.waiting
        yield client, subscription


async def overflow(daemon, subscription, size=50_000):
    """Publish until a client that does not read has lost a message."""
    while not subscription.dropped:
        daemon.sensor[STRING].publish("x" * size)
        await asyncio.sleep(0)


class TestSlowClients:
    async def test_it_gets_the_newest_of_each_and_the_number_of_the_rest(self):
        async with (
            serving(Limits(stream_queue=6)) as daemon,
            not_reading(daemon, STRING, DOOR) as (slow, subscription),
        ):
            published = 0

            async def flood(dropped):
                nonlocal published
                while subscription.dropped < dropped:
                    published += 1
                    daemon.sensor[STRING].publish("x" * 50_000)
                    await asyncio.sleep(0)

            await flood(1)
            daemon.sensor[DOOR].publish(True)  # dropped, too, and the last of its topic
            await flood(20)
            assert len(subscription) == 8
            text = bytearray()
            while b'"number":%d}\n' % published not in text or b"true" not in text:
                text += await slow.reader.read(1_000_000)
        documents = [json.loads(line) for line in text.splitlines()]
        assert [each["value"] for each in documents if each.get("topic") == DOOR] == [True]
        sent = [each["number"] for each in documents if each.get("topic") == STRING]
        assert sent == sorted(set(sent))
        assert sum(each.get("dropped", 0) for each in documents) == published - len(sent)
        assert documents[-3].keys() == {"dropped"}

    async def test_a_burst_of_all_topics_fits_the_queue(self):
        async with serving(Limits(stream_queue=1)) as daemon:
            names = [f"burst/{number}" for number in range(200)]
            node = daemon.bus.node("many")
            publishers = [node.advertise(name, FLOAT64) for name in names]
            async with opened(daemon, *names) as events:
                await events.next()
                for publisher in publishers:
                    publisher.publish(1)
                received = await events.next()
                assert [each.brief for each in received] == [(name, 1.0) for name in names]
                assert max(len(each.id) for each in received) < 20  # none is listed as missing

    async def test_little_is_buffered_beside_the_queue(self, daemon):
        async with not_reading(daemon, STRING) as (_, subscription):
            await overflow(daemon, subscription, 2_000)
            (connection,) = open_connections(daemon.server)
            sent = connection._transport.get_extra_info("socket")
            assert connection._transport.get_write_buffer_size() < SEND_BUFFER + 4_000
            assert sent.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * SEND_BUFFER  # socket(7)


class TestManyStreams:
    async def test_with_many_streams_messages_that_come_fast_share_a_write(self, daemon, clock):
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(opened(daemon, CO2, DOOR)) for _ in range(AT_ONCE + 1)]
            for each in streams:
                await each.next()
            await clock.advance(1)
            for value in (1, 2, 3):
                daemon.sensor[CO2].publish(value)
                await clock.settle()
            first, *_ = streams
            assert await first.brief() == [(CO2, 1.0)]
            await clock.advance(0.1)
            assert await first.brief() == [(CO2, 2.0), (CO2, 3.0)]


class TestEnd:
    async def test_a_client_that_goes_leaves_nothing_even_when_the_topics_are_silent(self, daemon):
        for how in ("close", "reset"):
            async with opened(daemon, CO2, DOOR) as events:
                await open_streams(daemon, 1)
                assert daemon.bus.topics.get(DOOR).subscribers == ["http"]
                if how == "reset":
                    events.client.reset()
                else:
                    await events.client.close()
                await open_streams(daemon, 0)
            assert daemon.api.node.information()["subs"] == []
            assert daemon.api._answers._of_many == 0

    async def test_a_client_that_does_not_read_goes_or_does_not_hold_up_the_server(self, caplog):
        async with serving() as daemon:
            async with not_reading(daemon, STRING) as (slow, subscription):
                await overflow(daemon, subscription)
                slow.reset()
                await open_streams(daemon, 0)
            async with not_reading(daemon, STRING) as (_, subscription):
                await overflow(daemon, subscription)
                await daemon.server.close()
            assert daemon.bus.topics.get(STRING).subscribers == []
        assert caplog.records == []

    async def test_it_ends_whole_with_the_server(self, daemon, monkeypatch):
        monkeypatch.setattr("growd.server.listener.CLOSE_S", PATIENCE_S)  # after which they are broken off
        async with opened(daemon, CO2, DOOR) as events, opened(daemon, CO2, throttle=9) as throttled:
            await events.next()
            await throttled.next()
            daemon.sensor[CO2].publish(1)
            await daemon.server.close()
            assert len(await events.end()) == len(await throttled.end()) == 1


class TestRefusals:
    async def test_it_takes_one_place_among_the_streams(self):
        async with serving(Limits(streams=2)) as daemon, opened(daemon, CO2, DOOR, LIGHT):
            await open_streams(daemon, 1)
            async with opened(daemon, CO2) as second:
                await open_streams(daemon, 2)
                for path in (f"/stream?topic={CO2}", f"/topic_stream/{CO2}"):
                    answer = await daemon.ask("GET", path)
                    assert (answer.status, answer.json["error"]) == (429, "too_many_streams")
                await second.client.close()
            await open_streams(daemon, 1)

    async def test_a_query_that_does_not_fit(self, daemon, said):
        one = f"topic={CO2}&"
        for status, code, *queries in (
            (400, "invalid_arguments", "", "throttle=1"),
            (404, "not_found", "topic=no/such", f"{one}topic=no"),
            (400, "invalid_name", f"{one}topic=", f"{one}topic=a//b", "topic=%FF"),
            (400, "invalid_value", "topic=" + "a" * 257, "topic=a&" * 201),
            (400, "invalid_value", *(f"{one}throttle={value}" for value in ("-1", "3601", "NaN", ""))),
            (400, "invalid_value", f"{one}heartbeat=0", f"{one}heartbeat=soon"),
        ):
            for query in queries:
                answer = await daemon.ask("GET", f"/stream?{query}")
                assert (answer.status, answer.json["error"]) == (status, code)
                said(answer.json["ERROR"])
        assert len(daemon.api.streams) == 0

    async def test_a_format_that_has_no_topics(self, daemon):
        for accept in ("text/plain", "image/png", "text/event-stream;q=0"):
            answer = await daemon.ask("GET", f"/stream?topic={CO2}", headers={"Accept": accept})
            assert answer.status == 406
            assert "must be one of text/event-stream, application/x-ndjson, not" in answer.json["ERROR"]

    async def test_when_growd_stops(self, daemon):
        daemon.api.end_streams()
        answer = await daemon.ask("GET", f"/stream?topic={CO2}")
        assert (answer.status, answer.json["error"]) == (503, "closing")
