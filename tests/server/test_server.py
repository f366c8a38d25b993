"""The one address: what goes where, HTTP/1.1 on the wire, and how the server comes and goes."""

import asyncio
import json
import logging
import random
import resource
import socket
from contextlib import suppress

import pytest

from growd.api.front_door import FrontDoor
from growd.server.listener import AddressError
from support.daemon import LIGHT, open_connections, serving
from support.exporting import front_door
from support.raw_http import RawUpstream, raw_client
from support.waiting import until

PARAMS = b"GET /_svc/api/0.0.1/param HTTP/1.1\r\nHost: x\r\n\r\n"


def publish(body, *headers, declared=b"application/json"):
    head = b"POST /_svc/api/0.0.1/topic/%b HTTP/1.1\r\nHost: x\r\nContent-Type: %b\r\n" % (
        LIGHT.encode(),
        declared,
    )
    lines = [b"Content-Length: %d" % len(body), *headers]
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


class TestRouting:
    @pytest.mark.parametrize(
        "target",
        [
            b"/",
            b"/_svcx",
            b"/_svcx/api/0.0.1/param",
            b"/_sv",
            b"/recipes/_all_docs?include_docs=true",
            b"/%5Fsvc/api/0.0.1/param",
            b"/x/_svc/api/0.0.1/param",
            b"/x?/_svc/api",
            b"http://h?x=/_svc/api/0.0.1/param",
        ],
    )
    async def test_what_is_not_the_apis_goes_to_the_database_as_it_came(self, daemon, target):
        async with raw_client(daemon.port) as client:
            await client.send(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = await client.answer()
        assert answer.body == b"database"
        assert daemon.database.targets == [target.decode()]

    @pytest.mark.parametrize("origin", [b"http://growd:5984", b"HTTP://growd", b"http://[::1]:5984"])
    async def test_a_target_in_absolute_form(self, daemon, origin):
        async with raw_client(daemon.port) as client:
            await client.send(PARAMS.replace(b"GET /", b"GET " + origin + b"/"))
            answer = await client.answer()
        assert answer.status == 200
        assert "results" in json.loads(answer.body)
        assert daemon.database.targets == []

    async def test_the_reserved_segment_without_a_slash_is_the_apis(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send(b"GET /_svc?x HTTP/1.1\r\nHost: x\r\n\r\n")
            assert json.loads((await client.answer()).body)["health"] == "/_svc/health"


class TestConnections:
    async def test_requests_in_a_row_on_one_connection_are_answered_in_order(self, daemon):
        unknown = PARAMS.replace(b"/param", b"/node/x")
        requests = [PARAMS, publish(b"[1]"), unknown, publish(b"[NaN]"), publish(b"[2]"), PARAMS]
        async with raw_client(daemon.port) as client:
            await client.send(b"".join(requests))
            statuses = [(await client.answer()).status for _ in requests]
        assert statuses == [200, 200, 404, 400, 200, 200]
        assert daemon.bus.topics.get(LIGHT).last.value == 2.0

    async def test_an_unread_body_does_not_become_the_next_request(self, daemon):
        async with raw_client(daemon.port) as client:
            request = publish(PARAMS, declared=b"text/plain")
            await client.send(request + PARAMS)
            assert (await client.answer()).status == 415
            answer = await client.answer()
            assert "results" in json.loads(answer.body)

    async def test_leave_to_send_a_body_is_given_when_it_is_wanted(self, daemon):
        async with raw_client(daemon.port) as client:
            head, body = publish(b"[8000]", b"Expect: 100-continue")[:-6], b"[8000]"
            await client.send(head)
            assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(body)
            assert (await client.answer()).status == 200

    @pytest.mark.parametrize(
        ("request_head", "status"),
        [
            (publish(b"[8000]", b"Expect: 100-continue", declared=b"text/plain")[:-6], 415),
            (publish(b"[8000]", b"Expect: 100-continue").replace(b"/topic/", b"/node/")[:-6], 405),
        ],
    )
    async def test_a_body_that_is_refused_beforehand_is_not_waited_for(self, daemon, request_head, status):
        async with raw_client(daemon.port) as client:
            await client.send(request_head)
            answer = await client.answer()
            assert answer.status == status
            assert answer.value(b"Connection") == b"close"

    async def test_an_upgrade_that_is_not_offered_is_ignored(self, daemon):
        headers = b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        async with raw_client(daemon.port) as client:
            await client.send(PARAMS.replace(b"\r\n\r\n", headers) + PARAMS)
            assert [(await client.answer()).status for _ in range(2)] == [200, 200]

    async def test_a_client_that_vanished_will_be_noticed(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send(PARAMS)
            await client.answer()
            (connection,) = open_connections(daemon.server)
            option = connection._transport.get_extra_info("socket").getsockopt
            assert option(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert option(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            assert option(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000


EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class TestTargetsBeyondAscii:
    """Programs send `key="café"` without encoding it, and CouchDB takes that."""

    async def test_they_reach_the_database_percent_encoded(self):
        async def script(peer):
            asked.append((await peer.head()).split(b"\r\n")[0])
            await peer.send(EMPTY)
            asked.append((await peer.head()).split(b"\r\n")[0])
            asked.append(await peer.exactly(len(body)))
            await peer.send(EMPTY)
            await peer.gone()

        asked = []
        text = "café".encode()
        body = b"GET /" + text + b" HTTP/1.1\r\n"
        async with (
            RawUpstream(script) as upstream,
            front_door(upstream.url) as door,
            raw_client(door.port) as client,
        ):
            await client.send(b'GET /%b?key="%b" HTTP/1.1\r\nHost: x\r\n\r\n' % (text, text))
            assert (await client.answer()).status == 200
            await client.send(b"POST /db HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
            await client.send(body)
            assert (await client.answer()).status == 200
        assert asked == [b'GET /caf%C3%A9?key="caf%C3%A9" HTTP/1.1', b"POST /db HTTP/1.1", body]

    async def test_the_api_reads_them_as_well(self, daemon):
        async with raw_client(daemon.port) as client:
            await client.send("GET /_svc/api/0.0.1/node/café HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert "café" in json.loads((await client.answer()).body)["ERROR"]


LAST_CHUNK = b"0\r\n\r\n"


class TestNotHttp:
    @pytest.mark.parametrize(
        ("data", "status"),
        [
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
            (b"hello\r\n\r\n", 400),
            (b"GET /_svc/a b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET /_svc HTTP/9.9\r\nHost: x\r\n\r\n", 400),
            (b"GET /_svc HTTP/1.1\r\n\r\n", 400),
            (b"GET /_svc HTTP/1.1\r\n folded\r\n\r\n", 400),
            (b"GET /_svc HTTP/1.1\r\nHost: x\r\nA:\0\r\n\r\n", 400),
            (b"GET /_svc HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
            (b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"POST /_svc HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
            (b"POST /_svc HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            (b"GET /_svc HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 500 + b"\r\n", 431),
            (b"GET /_svc/" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
            (b"GET /_svc HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20_000 + b"\r\n\r\n", 431),
            (b"BREW /_svc HTTP/1.1\r\nHost: x\r\n\r\n", 405),
            (b"POST /db HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"2".zfill(5_000) + b"\r\n\r\n{}", 400),
            (b"POST /_svc HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"2".zfill(5_000) + b"\r\n\r\n{}", 400),
            (b"POST /db HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + LAST_CHUNK, 501),
            (b"POST /_svc HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: , chunked\r\n\r\n" + LAST_CHUNK, 501),
        ],
    )
    async def test_is_refused_in_the_form_of_all_errors_and_closed(self, daemon, data, status, caplog):
        for before in (b"", PARAMS):
            async with raw_client(daemon.port) as client:
                if before:
                    await client.send(before)
                    assert (await client.answer()).status == 200
                await client.send(data)
                answer = await client.answer()
                await client.gone()
            assert answer.status == status
            assert answer.value(b"Content-Type") == b"application/json"
            assert answer.value(b"Connection") == b"close"
            found = json.loads(answer.body)
            codes = {400: "bad_request", 405: "method_not_allowed", 431: "header_too_large"}
            assert found["error"] == codes.get(status, "not_implemented")
            assert found["ERROR"] == found["reason"]
            assert "\n" not in found["ERROR"]
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []

    async def test_random_bytes_leave_the_server_as_it_was(self, daemon, caplog):
        chance = random.Random(20_180_601)
        before = daemon.state()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answered = 0
        for _ in range(100):
            async with raw_client(daemon.port) as client:
                with suppress(ConnectionError):
                    await client.send(disturbed(chance))
                    assert (await daemon.ask("GET", "/node")).status == 200  # and the noise is dealt with
                    data = bytes(client.reader._buffer)
                    answered += len(data) > 0
                    assert b"HTTP/1.1 5" not in data
                    assert b"Traceback" not in data
        assert answered > 60
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
        assert grown < 50_000, f"{grown} kB more"
        assert {**daemon.state(), "database": []} == {**before, "database": []}
        assert [record for record in caplog.records if record.levelno >= logging.INFO] == []
        assert (await daemon.ask("GET", "/param")).status == 200


def disturbed(chance):
    """Requests with some bytes exchanged, left out, repeated or put in."""
    node = PARAMS.replace(b"/param", b"/node")
    chunked = b"PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    data = bytearray(chance.choice([PARAMS, node, chunked, publish(b"[1, NaN]"), b""]) * chance.randint(1, 3))
    for _ in range(chance.randint(1, 8)):
        place = chance.randint(0, len(data))
        noise = chance.choice(
            [b"\r\n", b"\0", b"\xff", b" ", b":", b"%", chance.randbytes(chance.randint(1, 200))]
        )
        data[place : place + chance.randint(0, 4)] = noise
    return bytes(data)


class TestLife:
    async def test_a_port_in_use_is_told_in_one_sentence(self, daemon):
        other = FrontDoor(daemon.api, daemon.database)
        with pytest.raises(AddressError) as caught:
            await other.open("127.0.0.1", daemon.port)
        sentence = f"port {daemon.port} on 127.0.0.1 is in use by another program; choose another with --port"
        assert caught.value.strerror == sentence

    async def test_an_address_of_another_machine_is_told_in_one_sentence(self, daemon):
        with pytest.raises(AddressError, match=r"can't listen on 192\.0\.2\.1 port 0: "):
            await FrontDoor(daemon.api, daemon.database).open("192.0.2.1", 0)

    async def test_it_leaves_while_clients_hold_on(self, own_port):
        async with (
            serving(port=own_port) as daemon,
            raw_client(daemon.port) as idle,
            raw_client(daemon.port) as busy,
        ):
            await idle.send(PARAMS)
            await idle.answer()
            await busy.send(publish(b"[8000]")[:-1])  # its body does not come to its end
            await until(lambda: daemon.server.listener.requests)
            await daemon.server.close()
            assert daemon.server.listener.requests == 0
            await idle.gone()
            await busy.gone()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", daemon.port)
            assert daemon.bus.topics.get(LIGHT).last is None

    async def test_it_waits_for_those_whose_requests_it_ends(self, daemon, monkeypatch):
        begun, ended = asyncio.Event(), asyncio.Event()

        async def handle(_):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(20):  # some rounds of the loop, as to tell a database takes
                    await asyncio.sleep(0)
                ended.set()

        monkeypatch.setattr(daemon.database, "handle", handle)
        async with raw_client(daemon.port) as client:
            await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await begun.wait()
            await daemon.server.close()
            assert ended.is_set()
            await client.gone()

    async def test_a_connection_that_was_accepted_as_it_left_is_closed(self, daemon):
        factory = daemon.server.listener._factory
        await daemon.server.close()
        # asyncio reports a connection one turn of the loop after it accepted it
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with raw_client(listener.getsockname()[1]) as client:
                accepted, _ = listener.accept()
                await asyncio.get_running_loop().connect_accepted_socket(factory, accepted)
                await client.gone()
        assert daemon.server.connections == 0
