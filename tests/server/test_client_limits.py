"""One client can't take all: connections, streams, bodies and requests are limited for each address."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from growd.api import requests
from growd.config import Http
from growd.server.client_limits import MOST_REMEMBERED, ClientLimits, Clients
from growd.server.errors import ApiError
from support.daemon import CO2, LIGHT, NAMES, serving
from support.raw_http import RawClient
from support.waiting import until

API = b"/_svc/api/0.0.1"
NODES = API + b"/node"
STREAM = API + b"/topic_stream/" + CO2.encode()
PUBLISH = API + b"/topic/" + LIGHT.encode()
ONE, OTHER = "127.0.0.2", "127.0.0.3"


class Seconds:
    """A clock that stands still until it is told."""

    now = 100.0

    def __call__(self):
        return self.now


def get(target, *headers):
    return b"\r\n".join((b"GET " + target + b" HTTP/1.1", b"Host: x", *headers, b"", b""))


def nobody(_):
    return False


def crowd(monotonic=Seconds(), **limits):  # noqa: B008  it stands still
    """Limits that hold for this machine's addresses too, each of which stands for a client."""
    return Clients(ClientLimits(**limits), is_own=nobody, monotonic=monotonic)


@asynccontextmanager
async def daemon_for(clients):
    async with serving(policy=Http(hosts=NAMES), clients=clients) as daemon:
        yield daemon


@asynccontextmanager
async def client_at(daemon, address=ONE):
    """A client whose connection comes from that address."""
    streams = await asyncio.open_connection("127.0.0.1", daemon.port, local_addr=(address, 0))
    client = RawClient(*streams)
    try:
        yield client
    finally:
        await client.close()


async def refusal(client, status=429):
    answer = await client.answer()
    assert answer.status == status
    return json.loads(answer.body)["error"], json.loads(answer.body)["ERROR"]


async def is_answered(client, *headers):
    await client.send(get(NODES, *headers))
    return (await client.answer()).status == 200


async def open_stream(client, *headers):
    await client.send(get(STREAM, *headers))
    return b" 200 " in (await client.head()).splitlines()[0]


class TestConnections:
    async def test_one_client_has_its_share_and_another_has_its_own(self):
        async with daemon_for(crowd(connections=3)) as daemon, AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(client_at(daemon)) for _ in range(3)]
            for client in streams:
                assert await open_stream(client)
            async with client_at(daemon) as more, client_at(daemon, OTHER) as other:
                assert await refusal(more) == (
                    "too_many_connections",
                    "127.0.0.2 has 3 connections open, the maximum per client",
                )
                await more.gone()
                assert await is_answered(other)
            streams[0].reset()
            await until(lambda: daemon.server.connections == 2)
            async with client_at(daemon) as again:
                assert await is_answered(again)

    async def test_its_own_that_waited_longest_makes_way(self):
        async with daemon_for(crowd(connections=3)) as daemon, AsyncExitStack() as stack:
            other = await stack.enter_async_context(client_at(daemon, OTHER))
            assert await is_answered(other)  # and has waited for longest of all
            mine = [await stack.enter_async_context(client_at(daemon)) for _ in range(3)]
            for client in (mine[0], mine[2], mine[1], mine[0]):
                assert await is_answered(client)
            async with client_at(daemon) as new:
                assert await is_answered(new)
                await mine[2].gone()
                assert [await is_answered(client) for client in (other, mine[0], mine[1], new)] == [True] * 4

    async def test_this_machine_has_no_share(self):
        clients = Clients(ClientLimits(connections=1, streams=1, requests_hz=1))
        async with daemon_for(clients) as daemon, client_at(daemon) as one, client_at(daemon) as two:
            for client in (one, two):
                assert all([await is_answered(client) for _ in range(10)])
                assert await open_stream(client)


class TestStreams:
    async def test_one_client_has_its_share(self):
        async with daemon_for(crowd(streams=2)) as daemon, AsyncExitStack() as stack:
            mine = [await stack.enter_async_context(client_at(daemon)) for _ in range(2)]
            for client in mine:
                assert await open_stream(client)
            async with client_at(daemon) as more, client_at(daemon, OTHER) as other:
                name = CO2.encode()
                for target in (STREAM, API + b"/topic_data/" + name, API + b"/stream?topic=" + name):
                    await more.send(get(target))
                    code, said = await refusal(more)
                    assert (code, "127.0.0.2 has 2 streams open" in said) == ("too_many_streams", True)
                assert await open_stream(other)
            mine[0].reset()
            await until(lambda: len(daemon.api.streams) == 1)
            async with client_at(daemon) as again:
                assert await open_stream(again)
        assert daemon.api.clients._streams == {}


class TestRequests:
    async def test_one_client_may_ask_so_often_and_no_more(self, said):
        clock = Seconds()
        async with (
            daemon_for(crowd(clock, requests_hz=5)) as daemon,
            client_at(daemon) as client,
            client_at(daemon, OTHER) as other,
        ):
            assert all([await is_answered(client) for _ in range(10)])
            before = daemon.state()
            body = b"Content-Type: application/json\r\nContent-Length: 3\r\n\r\n[1]"
            await client.send(get(PUBLISH).replace(b"GET", b"POST")[:-2] + body)
            answer = await client.answer()
            assert answer.status == 429
            assert answer.value(b"Retry-After") == b"1"
            said(json.loads(answer.body)["reason"])
            assert daemon.state() == before
            assert await is_answered(other)
            clock.now += 0.2
            assert await is_answered(client)
            assert not await is_answered(client)

    async def test_the_database_is_asked_as_often_as_it_takes(self):
        async with daemon_for(crowd(requests_hz=1)) as daemon, client_at(daemon) as client:
            for _ in range(10):  # a replication between two machines asks often
                await client.send(get(b"/db"))
                assert (await client.answer()).status == 200

    def test_no_more_clients_are_remembered_than_fit(self):
        clients = crowd()
        for number in range(MOST_REMEMBERED + 10):
            clients.count(str(number))
        assert len(clients._asked) == MOST_REMEMBERED
        assert "0" not in clients._asked

    @given(st.lists(st.floats(0, 5), max_size=100), st.floats(1, 50))
    def test_never_more_than_the_rate_and_a_burst(self, waits, rate):
        clock = Seconds()
        clients, passed = crowd(clock, requests_hz=rate), 0
        for wait in waits:
            clock.now += wait
            try:
                clients.count("one")
            except ApiError:
                continue
            passed += 1
        assert passed <= (sum(waits) + 2) * rate + 1e-6


class TestBodies:
    async def test_one_client_has_a_quarter(self, monkeypatch):
        monkeypatch.setattr(requests, "MAX_HELD", 400_000)
        begun = (
            b"POST " + PUBLISH + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 65003\r\n\r\n" + b" " * 65_000
        )  # fmt: skip
        rest = b"[1]"
        async with daemon_for(crowd()) as daemon, client_at(daemon) as first, client_at(daemon) as second:
            await first.send(begun)
            await until(lambda: daemon.api.bodies.held == 65_000)
            await second.send(begun)
            await until(lambda: daemon.api.bodies.held == 130_000)
            async with client_at(daemon) as third, client_at(daemon, OTHER) as other:
                await third.send(begun)
                code, said = await refusal(third)
                assert code == "too_many_bodies"
                assert said.startswith("the bodies of 127.0.0.2 are larger than 131072 bytes together")
                await other.send(begun + rest)
                assert (await other.answer()).status == 200
            for client in (first, second):
                await client.send(rest)
                assert (await client.answer()).status == 200
        assert daemon.api.bodies.held == 0
        assert daemon.api.bodies._shares == {}


class TestProxies:
    @pytest.mark.parametrize(
        ("proxies", "remote", "forwarded", "client"),
        [
            (("10.0.0.7",), "10.0.0.7", ["192.0.2.1"], "192.0.2.1"),
            (("10.0.0.7",), "10.0.0.7", ["198.51.100.9", "192.0.2.1, 10.0.0.7"], "192.0.2.1"),
            (("10.0.0.7",), "10.0.0.7", ["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
            (("10.0.0.7",), "10.0.0.7", ["::ffff:192.0.2.1"], "192.0.2.1"),
            (("10.0.0.7",), "::ffff:10.0.0.7", ["192.0.2.1, ::ffff:10.0.0.7"], "192.0.2.1"),
            (("10.0.0.4/30",), "10.0.0.7", ["192.0.2.1"], "192.0.2.1"),
            # one on this machine is believed unnamed, and nobody else
            ((), "127.0.0.1", ["192.0.2.1"], "192.0.2.1"),
            (("10.0.0.7",), "10.0.0.9", ["192.0.2.1"], "10.0.0.9"),
            # a proxy that does not say for whom asks for itself, without a limit
            (("10.0.0.7",), "10.0.0.7", ["unknown"], None),
            (("10.0.0.7",), "10.0.0.7", [""], None),
            (("10.0.0.7",), "10.0.0.7", [], None),
        ],
    )
    def test_for_whom_a_request_counts(self, proxies, remote, forwarded, client):
        clients = Clients(ClientLimits(proxies=proxies))
        headers = CIMultiDict(("X-Forwarded-For", each) for each in forwarded)
        request = SimpleNamespace(remote=remote, headers=headers)
        clients.recognise(request)
        assert request.client == client

    def test_a_proxy_that_is_named_later_is_believed_from_then_on(self):
        clients = Clients()
        request = SimpleNamespace(remote="10.0.0.7", headers=CIMultiDict([("X-Forwarded-For", "192.0.2.1")]))
        clients.recognise(request)
        assert (request.address, request.client) == ("10.0.0.7", "10.0.0.7")
        clients.reconfigure(ClientLimits(proxies=("10.0.0.7",)))
        clients.recognise(request)
        assert (request.address, request.client) == ("192.0.2.1", "192.0.2.1")

    async def test_an_address_is_judged_once_for_all_its_requests(self):
        judged = []

        def is_own(address):
            judged.append(address)
            return True

        clients = Clients(is_own=is_own)
        async with daemon_for(clients) as daemon, client_at(daemon) as one, client_at(daemon) as two:
            for client in (one, two, one):
                assert await is_answered(client)
            assert judged == [ONE]
            assert await is_answered(one, b"X-Forwarded-For: 192.0.2.1")
            assert judged == [ONE, "192.0.2.1"]

    async def test_other_limits_hold_at_once(self):
        async with daemon_for(crowd(streams=1)) as daemon, client_at(daemon) as one, client_at(daemon) as two:
            assert await open_stream(one)
            daemon.api.clients.reconfigure(ClientLimits(streams=2))
            assert await open_stream(two)


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "client"),
        [
            ("192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:db8:1:2::", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80::/64"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("127.0.0.1", None),
            ("::ffff:127.0.0.2", None),
            ("::1", None),
            ("unknown", "unknown"),
            ("", None),
        ],
    )
    def test_whom_they_count_for(self, address, client):
        assert Clients().at(address) == client
