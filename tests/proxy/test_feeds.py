"""Feeds of changes when growd stops: they end with a whole answer."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from growd.proxy.gateway import Gateway
from support.gateway_server import gateway_to
from support.raw_http import RawUpstream, raw_client

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n%b\r\n"


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def open_feed(target, begun, extra=b""):
    """A gateway, and a client that asked for `target` and has got `begun`."""

    async def feed(peer):
        await peer.head()
        await peer.send(HEAD % extra + chunk(begun))
        await peer.gone()

    async with RawUpstream(feed) as upstream:
        gateway = Gateway(lambda: upstream.url)
        async with gateway_to(gateway) as port, raw_client(port) as client:
            await client.send(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % target)
            await client.head()
            assert await client.exactly(len(chunk(begun))) == chunk(begun)
            yield gateway, client


async def rest(client):
    return b"".join([piece async for piece in client.chunks()])


@pytest.mark.parametrize(
    ("since", "last_seq"), [("now", "now"), ("12", 12), ("12-g1AAAA", "12-g1AAAA"), ('"3-a"', "3-a")]
)
async def test_a_long_poll_ends_with_no_changes(since, last_seq):
    begun = b'{"results":[\n\n\n'  # with two heartbeats
    target = b"/db/_changes?feed=longpoll&since=" + since.encode()
    async with open_feed(target, begun) as (gateway, client):
        gateway.end_feeds()
        answer = json.loads(begun + await rest(client))
    assert answer == {"results": [], "last_seq": last_seq, "pending": 0}


@pytest.mark.parametrize("kind", [b"continuous", b"eventsource"])
async def test_a_feed_of_lines_ends_after_a_line(kind):
    async with open_feed(b"/db/_changes?feed=" + kind, b'{"seq":1,"id":"a"}\n') as (gateway, client):
        gateway.end_feeds()
        assert await rest(client) == b""


@pytest.mark.parametrize(
    ("target", "begun", "extra"),
    [
        (b"/db/_changes?feed=longpoll", b'{"results":[\n{"seq":1', b""),
        (b"/db/_changes?feed=continuous", b'{"seq":1,', b""),
        (b"/db/_changes?feed=longpoll", b'{"results":[\n', b"Content-Encoding: gzip\r\n"),
    ],
)
async def test_what_can_not_be_made_whole_is_cut_off(target, begun, extra):
    async with open_feed(target, begun, extra) as (gateway, client):
        gateway.end_feeds()
        with pytest.raises(asyncio.IncompleteReadError):
            await rest(client)


async def test_no_feed_begins_any_more():
    async with open_feed(b"/db/_changes?feed=longpoll", b'{"results":[\n') as (gateway, client):
        gateway.end_feeds()
        await rest(client)
        await client.send(b"GET /db/_changes?feed=longpoll HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer()).status == 503
