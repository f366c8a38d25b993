"""Clients that are slow or mean harm: what they can take is bounded, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
import resource
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise

import pytest
import pytest_asyncio
from aiohttp import StreamReader, web
from aiohttp.http_parser import HttpRequestParser

from growd.access.origins import Guard, WebPolicy
from growd.api.rest import Limits
from growd.config.tls import Tls
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import allow_open_files
from growd.server import admission, connections
from growd.server.connections import MAX_HEAD, ConnectionLimits
from growd.server.server import Server
from growd.server.tls import Certificate
from support import raw_http
from support.daemon import LIGHT, NAMES, serving
from support.tls_door import TLS, client_context
from support.waiting import until

NODES = b"GET /_svc/api/0.0.1/node HTTP/1.1\r\nHost: x\r\n\r\n"
UPGRADE = NODES[:-2] + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
STREAM = b"GET /_svc/api/0.0.1/topic_stream/%b HTTP/1.1\r\nHost: x\r\n\r\n" % LIGHT.encode()
CHUNKED = (
    b"POST /_svc/api/0.0.1/topic/%b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n" % LIGHT.encode()
)

# Over TLS much of what is sent stays with the test's own client, a thousand handshakes take long, and who is
# refused before the handshake is told nothing.
OVER_TCP = pytest.mark.parametrize("daemon", ["TCP"], indirect=True)
LATE = (408, "header_timeout", "the headers did not come within 10 s")


class Doors:
    """How clients come to the daemon of a test: over TCP alone, or over TLS."""

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
    guard = Guard(WebPolicy(hosts=NAMES))
    server = Server(daemon.api, daemon.database, ConnectionLimits(**limits), guard)
    await server.open("127.0.0.1", 0, certificate=Doors.certificate)
    try:
        yield server
    finally:
        await server.close()


def port_of(server):
    return server.address[1]


def posted(body, *, is_chunked):
    if is_chunked:
        return CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(body)) + body


BOTH = [posted(b"[400]", is_chunked=is_chunked) for is_chunked in (True, False)]


def time_out(server):
    """Let the time for a head be over on connections where it runs; how many there are."""
    timed = [each for each in server._http.admission.connections if each._timer is not None]
    for connection in timed:
        connection._timer.cancel()
        connection._head_is_late()
    return len(timed)


async def is_answered(client):
    await client.send(NODES)
    return (await client.answer()).status == 200


def dismiss(server):
    """Let the time be over that clients who were refused may take to read why."""
    for connection in [*server._http.connections]:
        if server._http.admission.is_lingering(connection):
            connection._timer._run()


async def refusal(client, server):
    """The answer with which a client is sent away."""
    answer = await client.answer()
    dismiss(server)
    await client.gone()
    assert answer.value(b"Connection") == b"close"
    assert answer.value(b"Content-Type") == b"application/json"
    found = json.loads(answer.body)
    assert found["ERROR"] == found["reason"]
    return answer.status, found["error"], found["ERROR"]


class TestIdle:
    @OVER_TCP
    async def test_a_thousand_idle_connections_keep_nobody_out(self, daemon, many_files):
        async with AsyncExitStack() as stack:
            idle = [await stack.enter_async_context(raw_client(daemon.port)) for _ in range(1_000)]
            async with raw_client(daemon.port) as client:
                assert await is_answered(client)
                assert daemon.server.connections == 1_001
            assert all([await is_answered(client) for client in idle])

    async def test_a_connection_that_never_says_a_word_is_closed_without_one(self, daemon):
        async with listening(daemon, header_timeout_s=0.05) as server, raw_client(port_of(server)) as client:
            assert await client.reader.read() == b""
            await until(lambda: server.connections == 0)

    async def test_a_connection_is_closed_when_no_further_request_comes(self, daemon):
        async with listening(daemon, keep_alive_s=0.05) as server, raw_client(port_of(server)) as client:
            assert await is_answered(client)
            assert await client.reader.read() == b""

    async def test_a_connection_may_be_idle_for_longer_than_a_head_may_take(self, daemon):
        async with raw_client(daemon.port) as client:
            for after in (b"", b"\r\n", b"\r\n\r\n"):  # RFC 9112, section 2.2: empty lines are no request
                await client.send(NODES + after)
                assert (await client.answer()).status == 200
                assert time_out(daemon.server) == 0
            await client.send(b"\r\n")
            async with raw_client(daemon.port) as other:
                assert await is_answered(other)  # and the empty line has arrived
                assert time_out(daemon.server) == daemon.server._http.admission.heads == 0
            assert await is_answered(client)

    @pytest.mark.parametrize("parts", [[4], [50], [-9], [-5], [-2], [4, -9, -5, -2]])
    @pytest.mark.parametrize("body", [b"[400]", b"\r\n[400]\r\n\r\n"])
    @pytest.mark.parametrize("is_chunked", [True, False])
    async def test_a_body_in_pieces_leaves_no_head_behind(self, daemon, parts, body, is_chunked):
        request = posted(body, is_chunked=is_chunked)
        places = [place % len(request) for place in parts]
        async with raw_client(daemon.port) as client:
            for begin, end in pairwise([0, *places, len(request)]):
                await client.send(request[begin:end])
                async with raw_client(daemon.port) as other:
                    assert await is_answered(other)  # and what was sent has arrived
            assert (await client.answer()).status == 200
            assert daemon.server._http.admission.heads == 0
            assert time_out(daemon.server) == 0
            assert await is_answered(client)


class TestDribbledHeads:
    async def test_a_head_that_takes_too_long_is_refused(self, daemon, monkeypatch):
        monkeypatch.setattr(connections, "LINGER_S", 0.05)
        async with listening(daemon, header_timeout_s=0.05) as server, raw_client(port_of(server)) as client:
            with suppress(ConnectionError):
                await client.send(NODES[:-2])
            await client.gone()
            await until(lambda: server.connections == 0)

    @pytest.mark.parametrize("before", [b"", NODES])
    async def test_each_byte_does_not_give_it_more_time(self, daemon, before):
        async with raw_client(daemon.port) as client:
            if before:
                assert await is_answered(client)
            await client.send(NODES[:-2])
            await until(lambda: daemon.server._http.admission.heads == len(NODES) - 2)
            (connection,) = daemon.server._http.admission.connections
            timer = connection._timer
            await client.send(b"A")
            await until(lambda: daemon.server._http.admission.heads == len(NODES) - 1)
            assert connection._timer is timer is not None
            assert time_out(daemon.server) == 1
            assert await refusal(client, daemon.server) == LATE

    @pytest.mark.parametrize("before", [NODES, NODES * 3, *BOTH, UPGRADE])
    async def test_a_head_that_came_with_a_request_is_timed_once_that_is_answered(self, daemon, before):
        begun = NODES[:-2]
        async with raw_client(daemon.port) as client:
            await client.send(before + begun)
            for _ in range(before.count(b"HTTP/1.1")):
                assert (await client.answer()).status == 200
            assert daemon.server._http.admission.heads == len(begun)
            await until(lambda: time_out(daemon.server) == 1)
            assert await refusal(client, daemon.server) == LATE

    async def test_a_head_that_came_during_an_answer_is_timed_after_it(self, daemon, monkeypatch):
        held = Held()
        monkeypatch.setattr(daemon.database, "handle", held.handle)
        async with raw_client(daemon.port) as client:
            await client.send(numbered(1))
            await until(lambda: held.connections)
            await client.send(NODES[:-2])
            await until(lambda: daemon.server._http.admission.heads == len(NODES) - 2)
            assert time_out(daemon.server) == 0
            held.leave.set()
            assert (await client.answer()).status == 200
            await until(lambda: time_out(daemon.server) == 1)
            assert await refusal(client, daemon.server) == LATE

    async def test_a_head_in_pieces_is_answered_when_it_is_in_time(self, daemon):
        async with raw_client(daemon.port) as client:
            for byte in NODES * 2:
                await client.send(bytes([byte]))
            assert [(await client.answer()).status for _ in range(2)] == [200, 200]

    async def test_a_body_is_not_held_to_the_limit_of_heads(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send(CHUNKED + b"3\r\n[40")
            await until(lambda: daemon.server._handlers)
            assert time_out(daemon.server) == 0
            await client.send(b"\r\n2\r\n0]\r\n0\r\n\r\n")
            assert (await client.answer()).status == 200

    @pytest.mark.parametrize("before", [b"", NODES, UPGRADE, UPGRADE + NODES])
    async def test_a_head_that_is_too_large_as_a_whole_is_refused(self, daemon, before):
        async with raw_client(daemon.port) as client:
            await client.send(before)
            for _ in range(before.count(b"GET")):
                assert (await client.answer()).status == 200
            await client.send(NODES[:-2])
            for number in range(5):
                await client.send(b"A%d: %b\r\n" % (number, b"a" * (MAX_HEAD // 4)))
            status, code, sentence = await refusal(client, daemon.server)
        assert (status, code) == (431, "header_too_large")
        assert sentence == f"the headers are longer than {MAX_HEAD} bytes"

    async def test_heads_that_are_not_complete_are_bounded_together(self, daemon, monkeypatch):
        monkeypatch.setattr(admission, "MAX_HEADS", 100_000)
        begun = NODES[:-2] + b"A: " + b"a" * 30_000
        async with AsyncExitStack() as stack:
            slow = [await stack.enter_async_context(raw_client(daemon.port)) for _ in range(3)]
            for number, client in enumerate(slow, 1):
                await client.send(begun)
                await until(lambda: daemon.server._http.admission.heads == number * len(begun))  # noqa: B023  it is awaited
            async with raw_client(daemon.port) as client:
                await slow[1].send(b"a" * 1_000)
                await until(lambda: daemon.server._http.admission.heads == 3 * len(begun) + 1_000)
                await client.send(begun[:9_000])
                status, code, _ = await refusal(slow.pop(1), daemon.server)  # which has most
                assert (status, code) == (503, "too_many_headers")
                await client.send(b"\r\n\r\n")
                assert (await client.answer()).status == 200
            async with raw_client(daemon.port) as client:
                assert await is_answered(client)  # a head that comes at once is no matter
            for client in slow:
                await client.send(b"\r\n\r\n")
                assert (await client.answer()).status == 200
            assert daemon.server._http.admission.heads == 0

    @pytest.mark.parametrize(
        ("begin", "more"),
        [
            (STREAM + NODES[:-2], b"A: " + b"a" * 16_000 + b"\r\n"),  # a head behind a request
            (CHUNKED + b"1;", b"a" * 16_000),  # an extension of a chunk
            (CHUNKED + b"2\r\n[1\r\n0\r\n", b"A: " + b"a" * 16_000 + b"\r\n"),  # trailers
        ],
    )
    async def test_what_is_no_body_has_an_end_also_behind_a_head(self, daemon, begin, more, caplog):
        async with raw_client(daemon.port) as client:
            await client.send(begin + more)
            for _ in range(2 * MAX_HEAD // len(more)):
                try:
                    await client.send(more)
                except ConnectionError:
                    break
            await client.gone()
        await until(lambda: daemon.server.connections == 0)
        await until(lambda: len(daemon.server._handlers) == 0)
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    async def test_a_large_body_is_no_large_head(self):
        body = b"[" + b" " * (MAX_HEAD + MAX_HEAD // 2) + b"400]"
        limits = Limits(body_bytes=2 * MAX_HEAD)
        async with serving(limits) as daemon, raw_client(daemon.port) as client:
            for framed in (
                CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(body)) + body,
                CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
            ):
                await client.send(framed)
                assert (await client.answer()).status == 200
            assert await is_answered(client)


class Echo:
    """Answers each request with its target, and notes how many more waited."""

    def __init__(self, size=0):
        self.size = size
        self.answered = 0
        self.most_waiting = 0
        self.connection = None

    async def handle(self, request):
        self.connection = request.protocol
        self.answered += 1
        self.most_waiting = max(self.most_waiting, len(request.protocol._messages))
        return web.Response(text=request.raw_path + "." * self.size)


class Held:
    """Answers when it may."""

    def __init__(self):
        self.connections = []
        self.leave = asyncio.Event()

    async def handle(self, request):
        self.connections.append(request.protocol)
        await self.leave.wait()
        return web.Response()


def numbered(count, pad=0):
    """Requests that are told apart, with so many bytes more in the head of each."""
    rest = b" HTTP/1.1\r\nHost: x\r\nA: " + b"a" * pad + b"\r\n\r\n"
    return b"".join(b"GET /%d" % number + rest for number in range(count))


def narrow(transport):
    """Have the kernel keep little for this end of a connection, whatever it gives to others."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, 16_384)


@OVER_TCP
class TestPipelining:
    COUNT = 10_000
    AHEAD = 100  # requests that are more than may wait, where they are padded

    async def test_all_are_answered_in_order_few_wait_and_others_have_their_turn(self, daemon, monkeypatch):
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
        assert echo.most_waiting <= 32

    async def test_a_client_that_reads_no_answer_gets_no_further_ones(self, daemon, monkeypatch):
        echo, count = Echo(size=50_000), 100
        monkeypatch.setattr(daemon.database, "handle", echo.handle)
        async with raw_client(daemon.port) as client:
            narrow(client.writer.transport)
            client.writer.transport.pause_reading()
            await until(lambda: daemon.server.connections == 1)
            (connection,) = daemon.server._http.admission.connections
            narrow(connection.transport)
            sending = asyncio.create_task(client.send(numbered(count)), name="sending")
            await until(lambda: connection.writing_paused)
            async with raw_client(daemon.port) as other:
                for _ in range(20):
                    assert await is_answered(other)
            assert echo.answered < count / 2
            assert connection.transport.get_write_buffer_size() < 200_000
            client.writer.transport.resume_reading()
            for number in range(count):
                assert (await client.answer()).body.startswith(b"/%d." % number)
            await sending

    async def test_little_is_read_behind_a_request_that_is_not_answered(self, daemon, monkeypatch):
        held, sent = Held(), 2_000_000
        monkeypatch.setattr(daemon.database, "handle", held.handle)
        async with raw_client(daemon.port) as client:
            large = numbered(1, pad=40_000)
            count = sent // len(large)
            sending = asyncio.create_task(client.send(large * count), name="sending")
            await until(lambda: held.connections and held.connections[0].runs_ahead)
            async with raw_client(daemon.port) as other:
                for _ in range(20):
                    assert await is_answered(other)
            assert 0 < len(held.connections[0]._messages) < 15
            assert paused(daemon) == 1
            held.leave.set()
            assert [(await client.answer()).status for _ in range(count)] == [200] * count
            await sending

    async def test_few_connections_may_have_much_waiting(self, daemon, monkeypatch):
        monkeypatch.setattr(admission, "RUNNING_AHEAD", 1)
        async with raw_client(daemon.port) as stuck, raw_client(daemon.port) as client:
            await stuck.send(STREAM + numbered(self.AHEAD, pad=400))
            await until(lambda: any(each.runs_ahead for each in daemon.server._http.admission.connections))
            for _ in range(2):  # once the first has been thrown out, and again when it has caught up itself
                sending = asyncio.create_task(client.send(numbered(self.AHEAD, pad=400)), name="sending")
                assert [(await client.answer()).status for _ in range(self.AHEAD)] == [200] * self.AHEAD
                await sending
            await stuck.gone()
            assert len(daemon.server._http.admission._ahead) == 0
            assert daemon.server.connections == 1

    async def test_many_small_requests_take_nobodys_place(self, daemon, monkeypatch):
        monkeypatch.setattr(admission, "RUNNING_AHEAD", 1)
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(raw_client(daemon.port)) for _ in range(3)]
            for number, client in enumerate(streams, 1):
                await client.send(STREAM + NODES * 100)
                await client.head()
                await until(lambda: paused(daemon) == number)  # noqa: B023  it is awaited
            async with raw_client(daemon.port) as client:
                await client.send(NODES * 100)
                assert [(await client.answer()).status for _ in range(100)] == [200] * 100
            daemon.sensor[LIGHT].publish(400)
            for client in streams:
                assert b"400" in await anext(client.chunks())


def paused(daemon):
    """How many connections are not read from."""
    return sum(not each.transport.is_reading() for each in daemon.server._http.admission.connections)


class TestUnread:
    """What nobody reads is not kept."""

    async def test_a_body_of_a_stream_is_dropped_as_it_comes(self, daemon):
        size = 1_000_000
        async with raw_client(daemon.port) as client:
            await client.send(STREAM[:-2] + b"Content-Length: %d\r\n\r\n" % (size + 1))
            await client.head()
            (connection,) = daemon.server._http.admission.connections
            body = connection._current_request.content
            await client.send(b"x" * size)
            await until(lambda: body.total_bytes == size and body._size == 0)
            daemon.sensor[LIGHT].publish(400)
            assert b"400" in await anext(client.chunks())
            await client.send(b"x" + NODES)  # which begins behind it
            await until(lambda: connection.has_more)

    async def test_a_body_of_a_request_that_waits_is_left_with_the_client(self, daemon, monkeypatch):
        held, size = Held(), 4_000_000
        monkeypatch.setattr(daemon.database, "handle", held.handle)
        async with raw_client(daemon.port) as client:
            head = b"PUT /y HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
            await client.send(numbered(1) + head)
            await until(lambda: held.connections and held.connections[0].has_more)
            sending = asyncio.create_task(client.send(b"x" * size), name="sending")
            await until(lambda: held.connections[0].runs_ahead)
            async with raw_client(daemon.port) as other:
                for _ in range(20):
                    assert await is_answered(other)
            assert held.connections[0]._messages[0][1].total_bytes < size / 10
            held.leave.set()
            assert [(await client.answer()).status for _ in range(2)] == [200, 200]
            await sending

    @OVER_TCP
    async def test_what_follows_an_upgrade_is_left_with_the_client_too(self, daemon):
        large = NODES[:-2] + b"A: " + b"a" * 40_000 + b"\r\n\r\n"
        count = 2_000_000 // len(large)
        async with raw_client(daemon.port) as client:
            await client.send(STREAM[:-2] + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            await client.head()
            (connection,) = daemon.server._http.admission.connections
            sending = asyncio.create_task(client.send(large * count), name="sending")
            await until(lambda: connection.runs_ahead)
            async with raw_client(daemon.port) as other:
                for _ in range(20):
                    assert await is_answered(other)
            assert paused(daemon) == 1
            assert connection._message_tail == b""
            assert 0 < len(connection._messages) < 15
            sending.cancel()
            await asyncio.wait([sending])
            client.reset()

    @OVER_TCP
    async def test_many_upgrades_in_a_row_are_all_answered(self, daemon):
        count = sys.getrecursionlimit() + 100
        async with raw_client(daemon.port) as client:
            sending = asyncio.create_task(client.send(UPGRADE * count), name="sending")
            assert [(await client.answer()).status for _ in range(count)] == [200] * count
            await sending


class TestSlowStreams:
    @OVER_TCP
    async def test_who_reads_nothing_is_bounded_and_others_get_all(self, daemon):
        count, pad = 1_000, "x" * 200
        topic = "environment_1/desired/recipe_start"
        request = STREAM.replace(LIGHT.encode(), topic.encode())
        async with raw_client(daemon.port) as deaf, raw_client(daemon.port) as other:
            narrow(deaf.writer.transport)
            for client in (deaf, other):
                await client.send(request)
                await client.head()
            deaf.writer.transport.pause_reading()
            chunks = other.chunks()
            numbers = []
            for number in range(count):
                daemon.sensor[topic].publish(f"{number} {pad}")
                numbers += [json.loads(line)["number"] for line in (await anext(chunks)).splitlines()]
            assert numbers == list(range(numbers[0], numbers[0] + count))
            waiting = sum(
                each.transport.get_write_buffer_size() for each in daemon.server._http.admission.connections
            )
            assert waiting < 100_000  # of 300 000
            deaf.writer.transport.resume_reading()
            seen = [line async for line in lines_until(deaf, f"{count - 1} ")]
        dropped = sum(line.get("dropped", 0) for line in seen)
        assert dropped > 0
        assert dropped + sum("value" in line for line in seen) == count

    @pytest.mark.parametrize("daemon", ["TLS"], indirect=True)
    async def test_over_tls_it_is_not_much_more(self, daemon):
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
                assert sum(map(held_over_tls, daemon.server._http.admission.connections)) < 60_000
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
    transport = connection.transport
    return transport.get_write_buffer_size() + transport._ssl_protocol._transport.get_write_buffer_size()


async def lines_until(client, beginning):
    """The lines of a stream up to the one whose value begins so."""
    async for chunk in client.chunks():
        for text in chunk.splitlines():
            line = json.loads(text)
            yield line
            if line.get("value", "").startswith(beginning):
                return


class TestInsideOfAiohttp:
    """What `Connection` leans on and aiohttp does not promise: see what took its place, where it is gone."""

    def test_all_that_a_connection_uses_is_there(self):
        used = set(re.findall(r"self\.(\w+)", inspect.getsource(connections.Connection)))
        assert {"_messages", "_message_tail", "_upgraded", "_buffer_paused", "_request_count"} < used
        assert [name for name in sorted(used) if not hasattr(connections.Connection, name)] == []

    @pytest.mark.parametrize(
        ("owner", "names"),
        [
            (
                web.RequestHandler,
                "connection_made data_received finish_response handle_error _resume_reading_if_drained",
            ),
            (HttpRequestParser, "set_upgraded feed_data message_consumed"),
            (StreamReader, "total_bytes is_eof set_exception feed_eof"),
        ],
    )
    def test_all_that_it_overrides_or_calls_is_there(self, owner, names):
        assert [name for name in names.split() if not hasattr(owner, name)] == []


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
                    expected = (503, "too_many_connections", "3 connections are open, which is the most")
                    assert await refusal(new, server) == expected
            streams[1].reset()
            await until(lambda: server.connections == 2)
            async with raw_client(port_of(server)) as new:
                assert await is_answered(new)
        told = [record.message for record in caplog.records if record.levelno >= logging.INFO]
        assert told == [
            "all 3 connections are being answered; others are refused",
            "connections are accepted again",
        ]

    @OVER_TCP
    async def test_few_of_those_refused_may_take_their_time(self, daemon, monkeypatch):
        monkeypatch.setattr(admission, "LINGERING", 1)
        monkeypatch.setattr(connections, "LINGER_S", 60)
        async with listening(daemon, connections=1) as server, raw_client(port_of(server)) as stream:
            await stream.send(STREAM)
            await stream.head()
            async with raw_client(port_of(server)) as slow, raw_client(port_of(server)) as other:
                for client in (slow, other):
                    assert (await client.answer()).status == 503
                await other.gone()
                await slow.gone()
                await until(lambda: len(server._http.connections) == 2)  # the stream, and who lingers

    @OVER_TCP
    async def test_who_does_not_leave_when_refused_is_thrown_out(self, daemon, monkeypatch):
        monkeypatch.setattr(connections, "LINGER_S", 0.05)
        async with listening(daemon, connections=1) as server, raw_client(port_of(server)) as stream:
            await stream.send(STREAM)
            await stream.head()
            async with raw_client(port_of(server)) as new:
                assert (await new.answer()).status == 503
                await until(lambda: len(server._http.connections) == 1)

    def test_the_program_may_open_as_many_files_as_the_system_lets_it(self, open_files):
        _, hard = open_files
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
        allow_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)

    @OVER_TCP
    async def test_who_sends_on_without_end_when_refused_is_thrown_out(self, daemon, monkeypatch):
        monkeypatch.setattr(connections, "LINGER_S", 60)
        async with listening(daemon, connections=1) as server, raw_client(port_of(server)) as stream:
            await stream.send(STREAM)
            await stream.head()
            async with raw_client(port_of(server)) as new:
                assert (await new.answer()).status == 503
                with pytest.raises(ConnectionError):
                    await self._send_without_end(new)
            await until(lambda: len(server._http.connections) == 1)

    async def _send_without_end(self, client):
        while True:
            await client.send(b"a" * MAX_HEAD)

    async def test_there_are_no_more_than_open_files_allow(self, daemon, monkeypatch, caplog):
        monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 1_024))
        async with listening(daemon, connections=1_000) as server:
            assert server._http.admission.most == (1_024 - admission.OTHER_FILES) // 2
        assert "1024 open files allow 384 connections, not 1000" in caplog.text
