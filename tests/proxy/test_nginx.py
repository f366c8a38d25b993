"""The nginx configuration in couchdb/ does what growd's own front door does, with a real nginx."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from support.gateway_doors import HOST, Step, ask, port_of, transcript
from support.gateway_nginx import nginx_binary, nginx_to
from support.gateway_steps import CREATE, DB, DELETE
from support.raw_http import RawUpstream, answering, raw_client, take_apart

pytestmark = pytest.mark.skipif(
    nginx_binary() is None, reason="nginx is not installed (Debian package nginx)"
)

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def door(database_server, tmp_path):
    """The port of an nginx before the database, which holds no `DB`."""
    async with nginx_to(tmp_path, database=port_of(database_server)) as port:
        await transcript(port, [DELETE], database_server)
        yield port
        await transcript(port, [DELETE], database_server)


class TestDatabase:
    async def test_location_names_what_the_client_used(self, door, database_server):
        await transcript(door, [CREATE], database_server)
        for headers, scheme in (((), b"http"), (("X-Forwarded-Proto: https",), b"https")):
            step = Step("PUT", f"{DB}/{scheme.decode()}", {"n": 1}, headers=headers)
            async with raw_client(door) as client:
                location = (await ask(client, step, database_server)).value(b"Location")
            assert location == scheme + b"://" + HOST + step.path.encode()


@asynccontextmanager
async def nginx_before(folder, script, side="database"):
    """A server that does what `script` says, and a client of the nginx before it."""
    async with (
        RawUpstream(script) as upstream,
        nginx_to(folder, **{side: upstream.port}) as port,
        raw_client(port) as client,
    ):
        yield upstream, client


def get(target, *headers):
    return b"\r\n".join((b"GET " + target + b" HTTP/1.1", b"Host: growd:5984", *headers, b"", b""))


async def heads_of(folder, *requests, side="database"):
    """What the server gets of these requests."""
    heads = []

    async def script(peer):
        with suppress(asyncio.IncompleteReadError):
            while True:
                heads.append(await peer.head())
                await peer.send(EMPTY)

    async with nginx_before(folder, script, side) as (_, client):
        for request in requests:
            await client.send(request)
            assert (await client.answer()).status == 200
    return heads


class TestBytes:
    async def test_path_and_query_pass_byte_for_byte(self, tmp_path):
        targets = [
            b"/db%2Fwith%2fslashes/_all_docs",
            b'/db/_view?startkey=["a",{}]&endkey=["a"]',
            b"/db/_list/csv/all_vars?&limit=5000",
            b"/db?",
            b"/db?a=1+2|3^4`5<6>7\\8%zz",
            b"//double//slashes/",
            b"/a/../b/./c",
            b"/db?" + b"k" * 60_000,
            b"/_svcs",  # which only begins like the reserved segment
        ]
        heads = await heads_of(tmp_path, *map(get, targets))
        for target, head in zip(targets, heads, strict=True):
            assert head.startswith(b"GET " + target + b" HTTP/1.1\r\n"), target

    async def test_headers_to_the_database(self, tmp_path):
        own = (b"Authorization: Basic YTpi", b"Cookie: a=b", b"X_Y: z", b"Accept-Encoding: gzip")
        request = get(b"/", *own, b"X-Forwarded-For: 10.0.0.1", b"TE: trailers", b"Upgrade: h2c")
        (head,) = await heads_of(tmp_path, request)
        assert dict(take_apart(head)[1]) == {
            b"Host": b"growd:5984",
            b"Authorization": b"Basic YTpi",
            b"Cookie": b"a=b",
            b"X_Y": b"z",
            b"Accept-Encoding": b"gzip",
            b"X-Forwarded-For": b"10.0.0.1, 127.0.0.1",
            b"X-Forwarded-Host": b"growd:5984",
            b"X-Forwarded-Proto": b"http",
        }

    async def test_the_reserved_segment_goes_to_growd(self, tmp_path):
        paths = [b"/_svc", b"/_svc/api/0.0.1/param/a%2Fb?c[]={}"]
        heads = await heads_of(tmp_path, *map(get, paths), side="growd")
        for path, head in zip(paths, heads, strict=True):
            assert head.startswith(b"GET " + path + b" HTTP/1.1\r\n")


class TestStreams:
    async def test_an_upload_passes_at_once(self, tmp_path):
        seen = asyncio.Event()

        async def script(peer):
            await peer.head()
            assert await peer.until(b"abc\r\n") == b"3\r\nabc\r\n"
            seen.set()
            await peer.until(b"0\r\n\r\n")
            await peer.send(EMPTY)
            await peer.gone()

        async with nginx_before(tmp_path, script) as (_, client):
            await client.send(b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            await seen.wait()
            await client.send(b"0\r\n\r\n")
            assert (await client.answer()).status == 200

    @pytest.mark.parametrize("begun", [b"", CHUNKED + b"1\r\n\n\r\n"], ids=["silent", "begun"])
    async def test_a_client_that_goes_away_ends_the_request(self, begun, tmp_path):
        asked = asyncio.Event()

        async def script(peer):
            await peer.head()
            await peer.send(begun)
            asked.set()
            await peer.gone()

        async with nginx_before(tmp_path, script) as (database, client):
            await client.send(get(b"/"))
            await asked.wait()
            await client.close()
            await database.finished()

    async def test_an_answer_that_breaks_off_does_not_look_whole(self, tmp_path):
        async def script(peer):
            await peer.head()
            await peer.send(CHUNKED + b"3\r\nabc\r\n")
            await peer.close()

        async with nginx_before(tmp_path, script) as (_, client):
            await client.send(get(b"/"))
            with pytest.raises(asyncio.IncompleteReadError):
                await client.answer()


class TestDown:
    async def test_it_is_told_in_couchdbs_form(self, tmp_path):
        async with nginx_to(tmp_path) as port, raw_client(port) as client:
            for path in (b"/db", b"/_svc/api/0.0.1/topic"):
                await client.send(get(path))
                answer = await client.answer()
                assert answer.status == 502
                assert json.loads(answer.body)["error"] == "bad_gateway"
                assert answer.value(b"Content-Type") == b"application/json"
                assert answer.value(b"Retry-After") == b"2"

    async def test_what_couchdb_says_of_itself_passes(self, tmp_path):
        own = b'{"error":"nodedown"}\n'
        script = answering(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n" % len(own) + own)
        async with nginx_before(tmp_path, script) as (_, client):
            await client.send(get(b"/"))
            assert (await client.answer()).body == own
