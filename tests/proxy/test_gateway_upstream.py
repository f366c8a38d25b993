"""Connections to the database: which are kept, for how long, and how an address is read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from growd.proxy.errors import UpstreamUnreachableError
from growd.proxy.upstream import Connection, ConnectionPool, Upstream
from support.raw_http import Peer, RawUpstream


class TestUpstream:
    @pytest.mark.parametrize(
        ("base", "origin"),
        [
            ("http://127.0.0.1:5985", b"http://127.0.0.1:5985"),
            ("http://127.0.0.1:5985/", b"http://127.0.0.1:5985"),
            ("http://user:secret@farm.example/couch/", b"http://farm.example:80/couch"),
            ("https://[::1]", b"https://[::1]:443"),
        ],
    )
    def test_an_address_is_read(self, base, origin):
        assert Upstream.parse(base).origin == origin

    @pytest.mark.parametrize("base", ["", "127.0.0.1:5985", "ftp://h", "http://", "http://h:99999"])
    def test_what_is_none_is_refused(self, base):
        with pytest.raises(ValueError, match=r"address|Port"):
            Upstream.parse(base)


@pytest.fixture(autouse=True)
def never_idle_for_long(monkeypatch):
    """Connections to the database are kept, however late a step of a test comes."""
    monkeypatch.setattr("growd.proxy.upstream.time", SimpleNamespace(monotonic=lambda: 0.0))


def lose_at_once(connection_made):
    def made_and_lost(connection, transport):
        connection_made(connection, transport)
        connection.connection_lost(None)
        connection.connection_lost = lambda _: None  # once only
        transport.abort()

    return made_and_lost


class TestPool:
    @staticmethod
    async def two_at_once(pool, upstream):
        address = Upstream.parse(upstream.url)
        both = [await pool.acquire(address), await pool.acquire(address)]
        for connection in both:
            pool.release(connection)
        return address, both

    async def test_the_youngest_is_taken_first(self):
        pool = ConnectionPool()
        async with RawUpstream(Peer.gone) as upstream:
            address, (_, second) = await self.two_at_once(pool, upstream)
            assert await pool.acquire(address) is second
            await pool.close()

    async def test_one_that_lay_idle_for_too_long_is_closed(self):
        pool = ConnectionPool(idle_limit=-1)
        async with RawUpstream(Peer.gone) as upstream:
            address, both = await self.two_at_once(pool, upstream)
            assert await pool.acquire(address) not in both
            for connection in both:
                await connection.lost
            await pool.close()

    async def test_no_more_are_kept_than_allowed(self):
        pool = ConnectionPool(max_idle=1)
        async with RawUpstream(Peer.gone) as upstream:
            address, (first, second) = await self.two_at_once(pool, upstream)
            await first.lost
            assert await pool.acquire(address) is second
            await pool.close()

    async def test_one_that_the_database_closed_is_not_taken(self):
        pool = ConnectionPool()
        async with RawUpstream(Peer.gone) as upstream:
            address, both = await self.two_at_once(pool, upstream)
            for peer in upstream.peers:
                await peer.close()
            for connection in both:
                await connection.lost
            assert await pool.acquire(address) not in both
            await pool.close()

    async def test_close_ends_those_in_use(self):
        pool = ConnectionPool()
        async with RawUpstream(Peer.gone) as upstream:
            await pool.acquire(Upstream.parse(upstream.url))
            await pool.close()
            await upstream.finished()

    async def test_one_that_is_lost_at_once_is_not_held(self, monkeypatch):
        monkeypatch.setattr(Connection, "connection_made", lose_at_once(Connection.connection_made))
        pool = ConnectionPool()
        async with RawUpstream(Peer.gone) as upstream:
            connection = await pool.acquire(Upstream.parse(upstream.url))
            await connection.lost
            assert not pool._open
            await pool.close()

    async def test_one_that_is_made_after_the_close_ends_as_well(self, monkeypatch):
        pool = ConnectionPool()
        closing: list[asyncio.Task[None]] = []
        made = Connection.connection_made

        def close_first(connection, transport):
            closing.append(asyncio.ensure_future(pool.close()))
            asyncio.get_running_loop().call_soon(made, connection, transport)

        monkeypatch.setattr(Connection, "connection_made", close_first)
        async with RawUpstream(Peer.gone) as upstream:
            with pytest.raises(UpstreamUnreachableError, match="growd is stopping"):
                await pool.acquire(Upstream.parse(upstream.url))
            await upstream.finished()
            await closing[0]

    async def test_an_address_where_nobody_listens(self, own_port):
        with pytest.raises(UpstreamUnreachableError, match="no connection to the database"):
            await ConnectionPool().acquire(Upstream.parse(f"http://127.0.0.1:{own_port}"))
