"""Slow and hostile clients: what they can hold is bounded, and others are served meanwhile."""

import asyncio
import json
import logging
import resource
import socket
import tracemalloc
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import pytest_asyncio
from aiohttp import web

from growd.access.origins import OriginGuard
from growd.api.front_door import FrontDoor
from growd.api.operation import Limits
from growd.config import Http
from growd.config.web import Tls
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import allow_open_files
from growd.server import admission, connections
from growd.server.connections import MAX_HEAD, ConnectionLimits
from growd.server.tls import Certificate
from support import raw_http
from support.daemon import LIGHT, NAMES, open_connections, serving
from support.tls_door import TLS, client_context
from support.waiting import until

pytestmark = pytest.mark.long

NODES = b"GET /_svc/api/0.0.1/node HTTP/1.1\r\nHost: x\r\n\r\n"
UPGRADE = NODES[:-2] + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
STREAM = b"GET /_svc/api/0.0.1/topic_stream/%b HTTP/1.1\r\nHost: x\r\n\r\n" % LIGHT.encode()
CHUNKED = (
    b"POST /_svc/api/0.0.1/topic/%b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n" % LIGHT.encode()
)
SIZED = CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d")

LARGE = NODES[:-2] + b"".join(b"A%d: %b\r\n" % (number, b"a" * 15_000) for number in range(6)) + b"\r\n"

# Over TLS much of what is sent stays with the test's own client, a thousand handshakes take long, and a
# client that is refused before the handshake gets no answer.
OVER_TCP = pytest.mark.parametrize("daemon", ["TCP"], indirect=True)
SOON_S = 0.2
LATE = (408, "header_timeout", f"the headers did not arrive within {SOON_S:g} s")
BOUND = 16 << 20  # bytes that a client can send: the kernel's buffers, and little of ours
SPIN = 300  # turns of the event loop without a byte moving: it has come to rest


class Doors:
    """How clients connect in a test: over TCP alone, or over TLS."""

    certificate = None
    context = None


@asynccontextmanager
async def raw_client(port):
    async with raw_http.raw_client(port, context=Doors.context) as client:
        yield client


@pytest_asyncio.fixture(params=["TCP", "TLS"])
async def daemon(request, monkeypatch, tmp_path):
    if request.param == "TLS":
        monkeypatch.setattr(Doors, "certificate", await own_certificate(tmp_path))
        monkeypatch.setattr(Doors, "context", await asyncio.to_thread(client_context))
    async with serving(certificate=Doors.certificate) as running:
        yield running


async def own_certificate(folder):
    key = folder / "server.key"
    key.write_bytes((TLS / "server.key").read_bytes())
    key.chmod(0o600)
    found = Certificate(Tls(certificate=str(TLS / "server.pem"), key=str(key)), RealClock())
    await found.open()
    return found


@pytest.fixture
def open_files():
    """The limits of open files, soft and hard; after the test they are as before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4_096:
        pytest.skip("the system allows too few open files")
    yield soft, hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def many_files(open_files):
    allow_open_files()


@asynccontextmanager
async def listening(daemon, **limits):
    """Another door to the same daemon, with these limits."""
    guard = OriginGuard(Http(hosts=NAMES))
    door = FrontDoor(daemon.api, daemon.database, ConnectionLimits(**limits), guard)
    await door.open("127.0.0.1", 0, certificate=Doors.certificate)
    try:
        yield door
    finally:
        await door.close()


@asynccontextmanager
async def at_door(daemon, **limits):
    """A door with these limits, and a client at it."""
    async with listening(daemon, **limits) as server, raw_client(port_of(server)) as client:
        yield server, client


def port_of(server):
    return server.address[1]


async def is_answered(client):
    await client.send(NODES)
    return (await client.answer()).status == 200


async def refusal(client):
    """The answer with which a client is disconnected."""
    answer = await client.answer()
    await client.gone()
    assert answer.value(b"Connection") == b"close"
    assert answer.value(b"Content-Type") == b"application/json"
    found = json.loads(answer.body)
    assert found["ERROR"] == found["reason"]
    return answer.status, found["error"], found["ERROR"]


def warnings_in(caplog):
    return [record for record in caplog.records if record.levelno >= logging.INFO]


async def at_rest(count):
    """`count` once it has stopped growing."""
    last, turns = -1, 0
    while turns < SPIN:
        await asyncio.sleep(0)
        turns = turns + 1 if count() == last else 0
        last = count()
    return last


async def pour(client, block, sent):
    while True:
        client.writer.write(block)
        sent[0] += len(block)
        await client.writer.drain()


@asynccontextmanager
async def pouring(client, block):
    """How many bytes of endless `block` a client could send, once no more are taken."""
    sent = [0]
    task = asyncio.create_task(pour(client, block, sent), name="pour")
    try:
        yield await at_rest(lambda: sent[0])
    finally:
        task.cancel()
        await asyncio.wait([task])
        client.reset()


class TestIdle:
    @OVER_TCP
    async def test_a_thousand_idle_connections_keep_nobody_out(self, daemon, many_files):
        async with AsyncExitStack() as stack:
            idle = [await stack.enter_async_context(raw_client(daemon.port)) for _ in range(1_000)]
            async with raw_client(daemon.port) as client:
                assert await is_answered(client)
                assert daemon.server.connections == 1_001
            assert all([await is_answered(client) for client in idle])

    async def test_a_connection_that_sends_nothing_is_closed_without_an_answer(self, daemon):
        async with at_door(daemon, header_timeout_s=SOON_S) as (server, client):
            assert await client.reader.read() == b""
            await until(lambda: server.connections == 0)

    @pytest.mark.parametrize("after", [b"", b"\r\n", b"\r\n\r\n"])  # RFC 9112, section 2.2
    async def test_a_connection_is_closed_when_no_further_request_comes(self, daemon, after):
        async with at_door(daemon, keep_alive_s=SOON_S) as (_, client):
            await client.send(NODES + after)
            assert (await client.answer()).status == 200
            assert await client.reader.read() == b""

    async def test_a_connection_may_be_idle_for_longer_than_a_head_may_take(self, daemon):
        async with (
            listening(daemon, header_timeout_s=SOON_S) as server,
            raw_client(port_of(server)) as client,
            raw_client(port_of(server)) as silent,
        ):
            assert await is_answered(client)
            await silent.gone()  # its time is over
            assert await is_answered(client)


class TestSlowHeads:
    @pytest.mark.parametrize("before", [b"", NODES, UPGRADE])
    async def test_a_head_that_takes_too_long_is_refused(self, daemon, before):
        async with at_door(daemon, header_timeout_s=SOON_S) as (server, client):
            if before:
                await client.send(before)
                assert (await client.answer()).status == 200
            await client.send(NODES[:-2])
            assert await refusal(client) == LATE
            await until(lambda: server.connections == 0)

    async def test_each_byte_does_not_give_it_more_time(self, daemon):
        async with at_door(daemon, header_timeout_s=SOON_S) as (_, client):
            await client.send(NODES[:-2] + b"A: ")
            answering = asyncio.create_task(refusal(client), name="refusal")
            left = 10_000  # bytes; a head may have 16 KiB
            while not answering.done():
                if left:
                    left -= 1
                    with suppress(ConnectionError):
                        await client.send(b"a")
                await asyncio.sleep(0)
            assert await answering == LATE

    async def test_a_head_behind_a_request_has_the_time_of_an_idle_connection(self, daemon):
        async with at_door(daemon, keep_alive_s=SOON_S) as (_, client):
            await client.send(NODES + NODES[:-2])
            assert (await client.answer()).status == 200
            await client.gone()

    async def test_a_head_in_pieces_is_answered_when_it_is_in_time(self, daemon):
        async with raw_client(daemon.port) as client:
            for byte in NODES * 2:
                await client.send(bytes([byte]))
            assert [(await client.answer()).status for _ in range(2)] == [200, 200]

    async def test_a_body_is_not_held_to_the_limit_of_heads(self, daemon):
        async with at_door(daemon, header_timeout_s=SOON_S) as (server, client):
            await client.send(CHUNKED + b"3\r\n[40")
            await until(lambda: server.listener.requests)
            async with raw_client(port_of(server)) as silent:
                await silent.gone()  # its time is over
            await client.send(b"\r\n2\r\n0]\r\n0\r\n\r\n")
            assert (await client.answer()).status == 200

    @pytest.mark.parametrize("before", [b"", NODES, UPGRADE])
    async def test_a_head_that_is_too_large_as_a_whole_is_refused(self, daemon, before):
        async with raw_client(daemon.port) as client:
            if before:
                await client.send(before)
                assert (await client.answer()).status == 200
            await client.send(NODES[:-2])
            for number in range(10):
                await client.send(b"A%d: %b\r\n" % (number, b"a" * 16_000))
            status, code, sentence = await refusal(client)
        assert (status, code) == (431, "header_too_large")
        assert sentence == f"the headers are longer than {MAX_HEAD} bytes"

    async def test_heads_that_are_not_complete_are_bounded_together(self, daemon, monkeypatch):
        monkeypatch.setattr(admission, "MAX_HEADS", 40_000)
        begun = NODES[:-2] + b"A: " + b"a" * 12_000
        async with AsyncExitStack() as stack:
            slow = [await stack.enter_async_context(raw_client(daemon.port)) for _ in range(3)]
            for number, client in enumerate(slow):
                await client.send(begun + b"a" * number)
                async with raw_client(daemon.port) as other:
                    assert await is_answered(other)  # and what was sent has arrived
            async with raw_client(daemon.port) as client:
                await client.send(begun[:9_000])
                status, code, _ = await refusal(slow.pop())  # the largest
                assert (status, code) == (503, "too_many_headers")
                await client.send(b"\r\n\r\n")
                assert (await client.answer()).status == 200
            for client in slow:
                await client.send(b"\r\n\r\n")
                assert (await client.answer()).status == 200

    @OVER_TCP
    async def test_a_refused_head_is_freed_at_once(self, daemon, monkeypatch):
        monkeypatch.setattr(connections, "LINGER_S", 600)
        pieces = [NODES[:-2], *(b"A%d: %b\r\n" % (number, b"a" * 15_000) for number in range(6))]
        tracemalloc.start()
        try:
            async with AsyncExitStack() as stack:
                before, _ = tracemalloc.get_traced_memory()
                for _ in range(30):
                    monkeypatch.setattr(admission, "MAX_HEADS", 1 << 20)
                    client = await stack.enter_async_context(raw_client(daemon.port))
                    await client.send(b"".join(pieces))
                    await until(lambda: sum(map(head_size, open_connections(daemon.server))) > 90_000)
                    monkeypatch.setattr(admission, "MAX_HEADS", 1)
                    await client.send(b"A")
                    assert (await client.answer()).status == 503
                after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < 3_000_000

    async def test_a_head_that_is_refused_twice_gets_one_answer(self, daemon, caplog):
        async with raw_client(daemon.port) as client:
            await client.send(NODES[:-2])
            await until(lambda: any(map(head_size, open_connections(daemon.server))))
            (connection,) = open_connections(daemon.server)
            connection.data_received(b"no header\r\n")  # aiohttp answers in a later turn
            connection.refuse_head(503, "too_many_headers", "of others")
            assert (await client.answer()).status == 503
            assert await client.reader.read() == b""
        assert warnings_in(caplog) == []

    @pytest.mark.parametrize(
        ("begin", "more"),
        [
            (STREAM + NODES[:-2], b"A: " + b"a" * 8_000 + b"\r\n"),  # a head behind a request
            (CHUNKED + b"2\r\n[1\r\n0\r\n", b"A: " + b"a" * 8_000 + b"\r\n"),  # trailers
        ],
    )
    @OVER_TCP
    async def test_headers_without_end_are_not_read_for_ever(self, daemon, begin, more, caplog):
        async with raw_client(daemon.port) as client:
            await client.send(begin)
            async with pouring(client, more * 10) as sent:
                assert sent < BOUND
        assert warnings_in(caplog) == []

    async def test_a_large_body_is_not_a_large_head(self):
        body = b"[" + b" " * (MAX_HEAD + MAX_HEAD // 2) + b"400]"
        limits = Limits(body_bytes=2 * MAX_HEAD)
        async with serving(limits) as daemon, raw_client(daemon.port) as client:
            for framed in (SIZED % len(body) + body, CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)):
                await client.send(framed)
                assert (await client.answer()).status == 200
            assert await is_answered(client)


def head_size(connection):
    return connection._head_size


class Echo:
    """Answers each request with its target."""

    def __init__(self, size=0):
        self.size = size
        self.answered = 0

    async def handle(self, request):
        self.answered += 1
        return web.Response(text=request.raw_path + "." * self.size)


class Held:
    """Answers when it may."""

    def __init__(self):
        self.asked = 0
        self.leave = asyncio.Event()

    async def handle(self, _):
        self.asked += 1
        await self.leave.wait()
        return web.Response()


def numbered(count, pad=0):
    """Requests with different targets, and `pad` bytes more in the head of each."""
    rest = b" HTTP/1.1\r\nHost: x\r\nA: " + b"a" * pad + b"\r\n\r\n"
    return b"".join(b"GET /%d" % number + rest for number in range(count))


def narrow(transport):
    """Have the kernel keep little for this end of a connection, whatever it gives to others."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, 16_384)


@OVER_TCP
class TestPipelining:
    COUNT = 2_000

    async def test_all_are_answered_in_order_and_others_have_their_turn(self, daemon, monkeypatch):
        echo = Echo()
        monkeypatch.setattr(daemon.database, "handle", echo.handle)
        async with raw_client(daemon.port) as client, raw_client(daemon.port) as other:
            sending = asyncio.create_task(client.send(numbered(self.COUNT)), name="sending")
            await client.answer()
            assert await is_answered(other)
            assert echo.answered < self.COUNT / 2
            for number in range(1, self.COUNT):
                assert (await client.answer()).body == b"/%d" % number
            await sending
        assert echo.answered == self.COUNT

    async def test_a_client_that_reads_no_answer_gets_no_further_ones(self, daemon, monkeypatch):
        echo, count = Echo(size=50_000), 100
        monkeypatch.setattr(daemon.database, "handle", echo.handle)
        async with raw_client(daemon.port) as client:
            narrow(client.writer.transport)
            client.writer.transport.pause_reading()
            await until(lambda: daemon.server.connections == 1)
            (connection,) = open_connections(daemon.server)
            narrow(connection._transport)
            sending = asyncio.create_task(client.send(numbered(count)), name="sending")
            assert await at_rest(lambda: echo.answered) < count / 2
            assert connection._transport.get_write_buffer_size() < 200_000
            client.writer.transport.resume_reading()
            for number in range(count):
                assert (await client.answer()).body.startswith(b"/%d." % number)
            await sending

    @pytest.mark.parametrize("pad", [0, 15_000])
    async def test_little_is_read_behind_a_request_that_is_not_answered(self, daemon, monkeypatch, pad):
        held = Held()
        monkeypatch.setattr(daemon.database, "handle", held.handle)
        count = 500_000 // len(numbered(1, pad))  # many times what is read ahead
        async with raw_client(daemon.port) as client:
            sending = asyncio.create_task(client.send(numbered(count, pad)), name="sending")
            await until(lambda: held.asked)
            async with raw_client(daemon.port) as other:
                for _ in range(20):
                    assert await is_answered(other)
            assert any(not each._transport.is_reading() for each in open_connections(daemon.server))
            held.leave.set()
            assert [(await client.answer()).status for _ in range(count)] == [200] * count
            await sending

    @pytest.mark.parametrize("block", [NODES * 100, UPGRADE * 100, LARGE])
    async def test_what_is_sent_behind_a_stream_is_left_with_the_client(self, daemon, block):
        async with raw_client(daemon.port) as client:
            await client.send(STREAM)
            await client.head()
            async with pouring(client, block) as sent:
                assert sent < BOUND
                (connection,) = open_connections(daemon.server)
                assert not connection._transport.is_reading()
                assert connection._ahead < 300_000

    async def test_many_upgrades_in_a_row_are_all_answered(self, daemon):
        count = 1_100  # more than Python may recurse
        async with raw_client(daemon.port) as client:
            sending = asyncio.create_task(client.send(UPGRADE * count), name="sending")
            assert [(await client.answer()).status for _ in range(count)] == [200] * count
            await sending


class TestUnread:
    """What nobody reads is not held."""

    async def test_a_body_of_a_stream_is_dropped_as_it_comes(self, daemon):
        size = 4_000_000
        async with raw_client(daemon.port) as client:
            await client.send(STREAM[:-2] + b"Content-Length: %d\r\n\r\n" % size)
            await client.head()
            await client.send(b"x" * size)
            daemon.sensor[LIGHT].publish(400)
            assert b"400" in await anext(client.chunks())

    async def test_a_body_of_a_request_that_waits_is_left_with_the_client(self, daemon, monkeypatch):
        held = Held()
        monkeypatch.setattr(daemon.database, "handle", held.handle)
        async with raw_client(daemon.port) as client:
            head = b"PUT /y HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
            await client.send(numbered(1) + head)
            await until(lambda: held.asked)
            async with pouring(client, b"x" * 65_536) as sent:
                assert sent < BOUND


class TestSlowStreams:
    @pytest.mark.parametrize("daemon", ["TLS"], indirect=True)
    async def test_little_is_held_for_who_reads_nothing(self, daemon):
        count, pad = 1_000, "x" * 1_000
        topic = "environment_1/desired/recipe_start"
        request = STREAM.replace(LIGHT.encode(), topic.encode())
        deaf = await asyncio.to_thread(deaf_client, daemon.port, request)
        with deaf:
            async with raw_client(daemon.port) as other:
                await other.send(request)
                await other.head()
                chunks = other.chunks()
                for number in range(count):
                    daemon.sensor[topic].publish(f"{number} {pad}")
                    await anext(chunks)
                assert sum(map(held_over_tls, open_connections(daemon.server))) < 60_000
                seen = await asyncio.to_thread(bytes_until, deaf, b'"%d ' % (count - 1))
        lines = [json.loads(line) for line in seen.splitlines() if line.startswith(b"{") and b"}" in line]
        dropped = sum(line.get("dropped", 0) for line in lines)
        assert dropped > 0
        assert dropped + sum("value" in line for line in lines) >= count - 1  # the last is cut


def deaf_client(port, request):
    """A connection over TLS from which nothing is read, not by the test's own TLS either."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    plain.settimeout(40)
    plain.connect(("127.0.0.1", port))
    client = Doors.context.wrap_socket(plain, server_hostname="127.0.0.1")
    client.sendall(request)
    bytes_until(client, b"\r\n\r\n", at_once=1)
    return client


def bytes_until(client, end, at_once=65_536):
    seen = b""
    while end not in seen:
        part = client.recv(at_once)
        assert part, seen[-100:]
        seen += part
    return seen


def held_over_tls(connection):
    """Bytes that wait for a client: not yet encrypted, and encrypted."""
    transport = connection._transport
    return transport.get_write_buffer_size() + transport._ssl_protocol._transport.get_write_buffer_size()


class TestConnectionLimit:
    async def test_a_new_client_takes_the_place_of_the_one_that_was_idle_for_longest(self, daemon):
        async with listening(daemon, connections=3) as server, AsyncExitStack() as stack:
            old = [await stack.enter_async_context(raw_client(port_of(server))) for _ in range(3)]
            for client in (old[0], old[2], old[1], old[0]):
                assert await is_answered(client)
            async with raw_client(port_of(server)) as new:
                assert await is_answered(new)
                await old[2].gone()
                assert [await is_answered(client) for client in (old[0], old[1], new)] == [True] * 3
                assert server.connections == 3

    @OVER_TCP
    async def test_nobody_who_is_being_answered_is_put_out_for_a_new_client(self, daemon, caplog):
        caplog.set_level(logging.INFO)
        async with listening(daemon, connections=3) as server, AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(raw_client(port_of(server))) for _ in range(3)]
            for client in streams:
                await client.send(STREAM)
                await client.head()
            for _ in range(2):
                async with raw_client(port_of(server)) as new:
                    await new.send(NODES)
                    expected = (503, "too_many_connections", "3 connections are open, which is the maximum")
                    assert await refusal(new) == expected
            streams[1].reset()
            await until(lambda: server.connections == 2)
            async with raw_client(port_of(server)) as new:
                assert await is_answered(new)
        told = [record.message for record in caplog.records if record.levelno >= logging.INFO]
        assert told == ["all 3 connections are busy; refusing new ones", "accepting new connections again"]

    @OVER_TCP
    async def test_a_refused_client_is_disconnected_soon(self, daemon, monkeypatch):
        monkeypatch.setattr(admission, "LINGERING", 1)
        async with listening(daemon, connections=1) as server, raw_client(port_of(server)) as stream:
            await stream.send(STREAM)
            await stream.head()
            async with raw_client(port_of(server)) as slow, raw_client(port_of(server)) as other:
                assert (await slow.answer()).status == 503
                await other.gone()  # without an answer, since only one may linger
                await slow.gone()

    def test_the_program_may_open_as_many_files_as_the_system_lets_it(self, open_files):
        _, hard = open_files
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
        allow_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)

    async def test_there_are_no_more_than_open_files_allow(self, daemon, monkeypatch, caplog):
        monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 1_024))
        async with listening(daemon, connections=1_000) as server:
            assert server.listener._factory.admission.most == (1_024 - admission.OTHER_FILES) // 2
        assert "1024 open files allow 384 connections, not 1000" in caplog.text
