"""The front door, byte for byte, in front of a server that records what it gets and answers as told."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack, suppress

import pytest

from growd.proxy.gateway import Gateway
from growd.server.client_limits import Clients
from support.gateway_server import gateway_before, gateway_to
from support.raw_http import Peer, RawUpstream, answering, raw_client, take_apart
from support.waiting import until

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CREATED = b"HTTP/1.1 201 Created\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n"


async def exchange(request, answer=EMPTY, *, prefix="", clients=None):
    """Send `request` through the gateway: the head that the upstream got, and the client's answer."""
    heads = []

    async def script(peer):
        heads.append(await peer.head())
        await peer.send(answer)
        await peer.close()

    async with (
        RawUpstream(script) as upstream,
        gateway_to(upstream.url + prefix, clients=clients) as port,
        raw_client(port) as c,
    ):
        await c.send(request)
        received = await c.answer(request.split(b" ")[0].decode())
        return (heads[0] if heads else b""), received


def get(target, *headers):
    return b"\r\n".join((b"GET " + target + b" HTTP/1.1", b"Host: growd:5984", *headers, b"", b""))


class TestTarget:
    @pytest.mark.parametrize(
        "target",
        [
            b"/",
            b"/db%2Fwith%2fslashes/_all_docs",
            b'/db/_view?startkey=["a",{}]&endkey=["a"]',
            b"/db/_design/x/_list/csv/all_vars?&limit=5000",
            b"/db?a=1+2|3^4`5<6>7\\8",
            b"/db?%5B%5b[",
            b"//double//slashes/",
            b"/a/../b/./c",
            b"/~user/;p=1,2!$&'()*:@",
            b"/%zz%",
            b"/db?" + b"k" * 60_000,
        ],
    )
    async def test_path_and_query_pass_byte_for_byte(self, target):
        head, answer = await exchange(get(target))
        assert head.startswith(b"GET " + target + b" HTTP/1.1\r\n")
        assert answer.status == 200

    async def test_the_prefix_of_the_database_is_put_before(self):
        head, _ = await exchange(get(b"/db?a"), prefix="/couch/")
        assert head.startswith(b"GET /couch/db?a HTTP/1.1\r\n")

    @pytest.mark.parametrize(
        ("target", "path"),
        [(b"http://outer:81/db?q", b"/db?q"), (b"http://outer:81", b"/"), (b"HTTP://outer:81?q", b"/?q")],
    )
    async def test_an_absolute_target_becomes_a_path_and_names_the_host(self, target, path):
        head, _ = await exchange(get(target))
        start, headers = take_apart(head)
        assert start == b"GET " + path + b" HTTP/1.1"
        assert (b"Host", b"outer:81") in headers
        assert b"growd:5984" not in head

    @pytest.mark.parametrize(("target", "sent"), [(b"/db?", b"/db"), (b"/db?a#b", b"/db?a")])
    async def test_an_empty_query_and_a_fragment_are_dropped(self, target, sent):
        head, answer = await exchange(get(target))
        assert head.startswith(b"GET " + sent + b" HTTP/1.1\r\n")
        assert answer.status == 200

    async def test_an_asterisk_is_refused(self):
        _, answer = await exchange(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.status == 400

    @pytest.mark.parametrize("method", [b"COPY", b"PROPFIND"])
    async def test_any_method_passes(self, method):
        head, answer = await exchange(method + b" /db/doc HTTP/1.1\r\nHost: x\r\nDestination: other\r\n\r\n")
        assert head.startswith(method + b" /db/doc HTTP/1.1\r\n")
        assert b"\r\nDestination: other\r\n" in head
        assert answer.status == 200

    async def test_it_is_no_forward_proxy(self):
        head, answer = await exchange(b"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n")
        assert head == b""
        assert answer.status == 405
        assert json.loads(answer.body)["error"] == "method_not_allowed"


class TestRequestHeaders:
    async def test_they_pass_as_they_came_and_none_is_added_but_the_forwarded_ones(self):
        sent = [
            b"accept-ENCODING: br;q=0.5, gzip",
            b"Authorization: Basic YTpi",
            b"Cookie: AuthSession=abc; b=c",
            b"X-Twice: 1",
            b'If-None-Match: "1-a"',
            b"x-twice:  2\t",
            "X-UTF-8: café".encode(),
            b"X-Empty:",
        ]
        head, _ = await exchange(get(b"/", *sent))
        assert take_apart(head)[1] == [
            (b"Host", b"growd:5984"),
            (b"Accept-Encoding", b"br;q=0.5, gzip"),
            (b"Authorization", b"Basic YTpi"),
            (b"Cookie", b"AuthSession=abc; b=c"),
            (b"X-Twice", b"1"),
            (b"If-None-Match", b'"1-a"'),
            (b"X-Twice", b"2"),
            (b"X-UTF-8", "café".encode()),
            (b"X-Empty", b""),
            (b"X-Forwarded-For", b"127.0.0.1"),
            (b"X-Forwarded-Host", b"growd:5984"),
            (b"X-Forwarded-Proto", b"http"),
            (b"Via", b"1.1 growd"),
        ]

    async def test_what_belongs_to_one_hop_stays_there(self):
        sent = (
            b"Connection: keep-alive, X-Private",
            b"Keep-Alive: timeout=5",
            b"X-Private: 1",
            b"Proxy-Authorization: Basic eA==",
            b"Proxy-Connection: keep-alive",
            b"TE: trailers",
            b"Trailer: X-Sum",
            b"Upgrade: h2c",
            b"X-Kept: 1",
        )
        head, _ = await exchange(get(b"/", *sent))
        names = [name for name, _ in take_apart(head)[1]]
        forwarded = [b"X-Forwarded-For", b"X-Forwarded-Host", b"X-Forwarded-Proto", b"Via"]
        assert names == [b"Host", b"X-Kept", *forwarded]

    async def test_connection_cannot_take_away_what_delimits_the_message(self):
        sent = b"Host: h\r\nContent-Length: 0\r\nConnection: content-length, host\r\n\r\n"
        head, _ = await exchange(b"PUT /a HTTP/1.1\r\n" + sent)
        assert {(b"Content-Length", b"0"), (b"Host", b"h")} <= {*take_apart(head)[1]}

    async def test_a_proxy_further_out_is_believed_and_its_chain_goes_on(self):
        further = (
            b"X-Forwarded-For: 10.0.0.1",
            b"X-Forwarded-For: 10.0.0.2, 10.0.0.3",
            b"X-Forwarded-Host: farm.example",
            b"X-Forwarded-Proto: https",
            b"Via: 1.0 farm",
            b"via: 1.1 growd (outer), 2 x",
        )
        head, _ = await exchange(get(b"/", *further))
        headers = take_apart(head)[1]
        # but for a proxy on this machine: for CouchDB the last is the peer
        assert (b"X-Forwarded-For", b"10.0.0.1, 10.0.0.2, 10.0.0.3") in headers
        assert (b"X-Forwarded-Host", b"farm.example") in headers
        assert (b"X-Forwarded-Proto", b"https") in headers
        assert (b"Via", b"1.0 farm, 1.1 growd (outer), 2 x, 1.1 growd") in headers

    async def test_a_stranger_sets_neither_forwarded_host_nor_scheme(self):
        request = get(b"/", b"X-Forwarded-Host: farm.example", b"X-Forwarded-Proto: https")
        head, _ = await exchange(request, clients=Clients(is_own=lambda _: False))
        headers = take_apart(head)[1]
        assert [value for name, value in headers if name == b"X-Forwarded-Host"] == [b"growd:5984"]
        assert [value for name, value in headers if name == b"X-Forwarded-Proto"] == [b"http"]

    async def test_a_database_address_that_leads_back_here_is_told(self):
        addresses = []
        gateway = Gateway(lambda: addresses[0])
        async with gateway_to(gateway) as port, raw_client(port) as client:
            addresses.append(f"http://127.0.0.1:{port}")
            await client.send(get(b"/db"))
            answer = await client.answer()
        assert answer.status == 508
        assert json.loads(answer.body)["error"] == "loop_detected"

    @pytest.mark.parametrize(
        "target",
        [
            b"/_replicator",
            b"//_replicator/_all_docs",
            b"/%5Freplicator/a",
            b"/_node/_local?x=1",
            b"http://localhost/_replicator",
            b"HTTP://localhost//_node/_local",
            b"/_replicator#a",
        ],
    )
    async def test_what_is_closed_can_not_be_reached(self, target):
        gateway = Gateway(lambda: None, closed=frozenset({"_replicator", "_node"}))
        async with gateway_to(gateway) as port, raw_client(port) as client:
            await client.send(get(target))
            answer = await client.answer()
        assert answer.status == 403
        assert json.loads(answer.body)["error"] == "forbidden"

    async def test_an_http_1_0_client_without_host_is_given_the_address_it_reached(self):
        heads = []

        async def script(peer):
            heads.append(await peer.head())
            await peer.send(EMPTY)

        async with RawUpstream(script) as up, gateway_to(up.url) as port, raw_client(port) as client:
            await client.send(b"GET / HTTP/1.0\r\n\r\n")
            answer = await client.answer()
            assert await client.reader.read() == b""
        assert (b"Host", b"127.0.0.1:%d" % port) in take_apart(heads[0])[1]
        assert answer.status == 200

    async def test_an_http_1_0_client_keeps_its_connection_when_it_asks(self):
        answers = answering(EMPTY, EMPTY)
        async with gateway_before(answers) as (_, client):
            for _ in range(2):
                await client.send(b"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
                assert (await client.answer()).values(b"Connection") == [b"keep-alive"]


class TestSmuggling:
    """What two servers could read as different messages never reaches the second."""

    @pytest.mark.parametrize(
        "headers",
        [
            b"Content-Length: 3\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked\r\nContent-Length: 3",
            b"Content-Length: 3\r\nContent-Length: 4",
            b"Content-Length: +3",
            b"Content-Length: 3,3",
            b"Transfer-Encoding: chunked, gzip",
            b"Transfer-Encoding: xchunked",
            b"Transfer-Encoding : chunked",
            b"Transfer-Encoding:\x0bchunked",
            b"X: a\r\n folded: b",
            b"X: a\rTransfer-Encoding: chunked",
            b"X: a\nTransfer-Encoding: chunked",
            b"X: a\0b",
        ],
    )
    async def test_an_ambiguous_head_is_refused(self, headers, caplog):
        caplog.set_level(logging.CRITICAL)
        head, answer = await exchange(
            b"POST / HTTP/1.1\r\nHost: h\r\n" + headers + b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        )
        assert head == b""
        assert answer.status in {400, 501}

    @pytest.mark.parametrize("version", [b"1.0", b"1.1"])
    async def test_a_body_is_framed_anew(self, version):
        request = b"POST / HTTP/%b\r\nHost: h\r\nTransfer-Encoding: identity, chunked\r\n\r\n" % version
        head, _ = await exchange(request + b"3\r\nabc\r\n0\r\n\r\n")
        assert b"Transfer-Encoding: identity" not in head

    async def test_an_answer_nobody_asked_for_goes_to_nobody(self):
        answers = answering(EMPTY + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
        async with gateway_before(answers) as (upstream, client):
            for _ in range(2):
                await client.send(get(b"/"))
                assert (await client.answer()).body == b""
            assert len(upstream.peers) == 2


class TestAnswer:
    @pytest.mark.parametrize("status", [b"412 Precondition Failed", b"299 "])
    async def test_status_headers_and_compressed_bodies_pass(self, status):
        body = b"\x1f\x8b not really gzip"
        headers = [
            (b"Server", b"CouchDB/3.5"),
            (b"Date", b"Sun, 22 Nov 2026 10:00:00 GMT"),
            (b"Content-Type", b"text/plain"),
            (b"Content-Encoding", b"gzip"),
            (b"Set-Cookie", b"a=1; Path=/"),
            (b"X-Text", "é".encode()),
            (b"Set-Cookie", b"b=2; HttpOnly"),
            (b"ETag", b'"1-a"'),
            (b"Content-Length", b"%d" % len(body)),
        ]
        block = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        asked = get(b"/", b"Accept-Encoding: gzip")
        _, answer = await exchange(asked, b"HTTP/1.1 " + status + b"\r\n" + block + b"\r\n" + body)
        assert answer.status_line == b"HTTP/1.1 " + status
        assert (answer.headers, answer.body) == (headers, body)

    async def test_what_http_wants_is_added_where_the_database_left_it_out(self):
        _, answer = await exchange(get(b"/"), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        names = {name for name, _ in answer.headers}
        assert names == {b"Content-Length", b"Content-Type", b"Date", b"Server"}

    async def test_what_belongs_to_one_hop_stays_there(self):
        _, answer = await exchange(
            get(b"/"),
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Private\r\nX-Private: 1\r\n"
            b"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nX-Kept: 1\r\nContent-Length: 0\r\n\r\n",
        )
        assert answer.values(b"X-Kept") == [b"1"]
        for name in (b"Connection", b"X-Private", b"Keep-Alive", b"Proxy-Authenticate"):
            assert answer.values(name) == []

    @pytest.mark.parametrize(
        ("framing", "body"),
        [
            (b"Content-Length: 6\r\n\r\n", b"abcdef"),
            (
                b"Transfer-Encoding: chunked\r\n\r\n",
                b"3\r\nabc\r\n0003;x=y\r\ndef\r\n0\r\nX-Trailer: 1\r\n\r\n",
            ),
            (b"\r\n", b"abcdef"),
        ],
        ids=["sized", "chunked", "until-close"],
    )
    @pytest.mark.parametrize("split", [1, 5, 1000])
    async def test_a_body_arrives_however_it_is_framed_and_cut(self, framing, body, split):
        async def script(peer):
            await peer.head()
            message = b"HTTP/1.1 200 OK\r\n" + framing + body
            for start in range(0, len(message), split):
                await peer.send(message[start : start + split])
                await asyncio.sleep(0)
            await peer.close()

        async with RawUpstream(script) as upstream, gateway_to(upstream.url) as port:
            for version in (b"HTTP/1.1", b"HTTP/1.0"):
                async with raw_client(port) as client:
                    await client.send(b"GET / " + version + b"\r\nHost: h\r\n\r\n")
                    assert (await client.answer()).body == b"abcdef"

    @pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
    async def test_an_answer_without_body_ends_at_its_head(self, status):
        one = b"HTTP/1.1 " + status + b'\r\nETag: "1"\r\n\r\n'
        answers = answering(one, one)
        async with gateway_before(answers) as (upstream, client):
            for _ in range(2):
                await client.send(get(b"/"))
                answer = await client.answer()
                assert answer.status_line == b"HTTP/1.1 " + status
                assert answer.value(b"ETag") == b'"1"'
            assert len(upstream.peers) == 1

    @pytest.mark.parametrize("framing", [b"Content-Length: 1234", b"Transfer-Encoding: chunked"])
    async def test_an_answer_to_head_has_no_body_and_keeps_its_length(self, framing):
        one = b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n"
        answers = answering(one, one)
        async with gateway_before(answers) as (_, client):
            for _ in range(2):
                await client.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
                answer = await client.answer("HEAD")
                expected = [b"1234"] if b"Length" in framing else []
                assert answer.values(b"Content-Length") == expected

    @pytest.mark.parametrize("path", [b"/db/doc?a", b""])
    async def test_a_location_inside_is_told_as_seen_from_outside(self, path):
        async def script(peer):
            await peer.head()
            location = upstream.url.encode() + path
            await peer.send(CREATED % location)
            await peer.gone()

        async with gateway_before(script) as (upstream, client):
            await client.send(get(b"/", b"X-Forwarded-Proto: https"))
            assert (await client.answer()).value(b"Location") == b"https://growd:5984" + path

    @pytest.mark.parametrize(
        "location", [b"http://growd:5984/db", b"/db/doc", b"http://127.0.0.1:1/x", b"../a b"]
    )
    async def test_any_other_location_passes(self, location):
        _, answer = await exchange(get(b"/"), CREATED % location)
        assert answer.value(b"Location") == location


class TestUpload:
    @pytest.mark.parametrize(
        ("framing", "pieces"),
        [
            (b"Content-Length: 6", [b"abcdef"]),
            (b"Content-Length: 6", [b"", b"abc", b"", b"def"]),
            (b"Transfer-Encoding: chunked", [b"6\r\nabcdef\r\n0\r\n\r\n"]),
        ],
    )
    async def test_a_body_with_its_head_or_behind_it(self, framing, pieces):
        async def script(peer):
            for _ in range(2):
                is_sized = b"\r\nContent-Length: 6\r\n" in await peer.head()
                body = b"abcdef" if is_sized else pieces[0]
                assert await peer.exactly(len(body)) == body
                await peer.send(EMPTY)

        async with gateway_before(script) as (upstream, client):
            for _ in range(2):
                head = b"PUT /a HTTP/1.1\r\nHost: h\r\n" + framing + b"\r\nContent-Encoding: gzip\r\n\r\n"
                await client.send(head + pieces[0])
                for piece in pieces[1:]:
                    await client.send(piece)
                assert (await client.answer()).status == 200
            assert len(upstream.peers) == 1

    async def test_a_body_in_chunks(self):
        received = []
        begun = asyncio.Event()

        async def script(peer):
            received.append(await peer.until(b"abc\r\n"))
            begun.set()
            received.append(await peer.until(b"0\r\n\r\n"))
            await peer.send(EMPTY)

        async with gateway_before(script) as (_, client):
            await client.send(b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n")
            await client.send(b"3;ext=1\r\nabc\r\n")
            await begun.wait()
            await client.send(b"3\r\nde")
            await client.send(b"f\r\n0\r\nX-Trailer: 1\r\n\r\n")
            assert (await client.answer()).status == 200
        assert b"\r\nTransfer-Encoding: chunked\r\n" in received[0]
        assert b"".join(received[1].split(b"\r\n")[1::2]) == b"def"
        assert b"X-Trailer" not in received[1]

    async def test_growd_itself_answers_expect_100_continue(self):
        async def script(peer):
            assert b"Expect" not in await peer.head()
            assert await peer.exactly(3) == b"abc"
            await peer.send(EMPTY)

        async with gateway_before(script) as (_, client):
            await client.send(
                b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
            )
            assert (await client.answer()).status_line == b"HTTP/1.1 100 Continue"
            await client.send(b"abc")
            answer = await client.answer()
            assert answer.status == 200
            assert answer.values(b"Connection") == []

    async def test_an_early_answer_reaches_a_client_that_still_sends(self):
        async def script(peer):
            await peer.until(b"abc")
            await peer.send(b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
            await peer.close()

        async with gateway_before(script) as (_, client):
            await client.send(b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\nabc")
            answer = await client.answer()
        assert (answer.status, answer.body) == (401, b"no")
        assert answer.values(b"Connection") == [b"close"]

    async def test_a_body_that_breaks_its_framing_is_told_and_never_completed_upstream(self, caplog):
        caplog.set_level(logging.CRITICAL)
        begun = asyncio.Event()
        rest = []

        async def script(peer):
            await peer.head()
            await peer.until(b"abc\r\n")
            begun.set()
            rest.append(await peer.reader.read())

        async with RawUpstream(script) as upstream, gateway_to(upstream.url, stall_limit=0.1) as port:
            async with raw_client(port) as client:
                head = b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                await client.send(head + b"3\r\nabc\r\n")
                await begun.wait()
                await client.send(b"zz\r\n")
                assert (await client.answer()).status in {400, 408}
            await upstream.finished()
        assert rest == [b""]

    async def test_a_client_that_stops_sending_is_let_go(self):
        async with gateway_before(Peer.gone, stall_limit=0.05) as (_, client):
            await client.send(b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc")
            answer = await client.answer()
        assert answer.status == 408
        assert json.loads(answer.body)["error"] == "timeout"


class TestConnections:
    async def test_they_are_kept_and_used_again(self):
        sized = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
        answers = answering(sized, chunked, sized)
        async with RawUpstream(answers) as upstream, gateway_to(upstream.url) as port:
            for _ in range(3):
                async with raw_client(port) as client:
                    await client.send(get(b"/"))
                    assert (await client.answer()).body == b"x"
            assert len(upstream.peers) == 1

    async def test_one_that_the_database_wants_closed_is_not(self):
        answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        async with gateway_before(answering(answer)) as (upstream, client):
            for _ in range(2):
                await client.send(get(b"/"))
                assert (await client.answer()).status == 200
            assert len(upstream.peers) == 2

    @pytest.mark.parametrize(
        ("request_", "status", "connections"),
        [
            (get(b"/"), 200, 2),
            (b"DELETE /a HTTP/1.1\r\nHost: h\r\n\r\n", 502, 1),
            (b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx", 502, 1),
        ],
    )
    async def test_only_a_read_that_met_a_closed_one_is_repeated(self, request_, status, connections):
        async def closes_on_the_second_request(peer):
            await peer.head()
            await peer.send(EMPTY)
            await peer.head()
            await peer.close()

        async with gateway_before(closes_on_the_second_request) as (upstream, client):
            await client.send(get(b"/"))
            assert (await client.answer()).status == 200
            await client.send(request_)
            assert (await client.answer()).status == status
            assert len(upstream.peers) == connections

    async def test_a_cookie_of_one_client_does_not_reach_the_next_request(self):
        heads = []

        async def script(peer):
            for _ in range(2):
                heads.append(await peer.head())
                await peer.send(
                    EMPTY.replace(b"\r\n\r\n", b"\r\nSet-Cookie: AuthSession=abc; Path=/\r\n\r\n")
                )
            await peer.gone()

        async with RawUpstream(script) as upstream:
            by_name = upstream.url.replace("127.0.0.1", "localhost")  # jars keep no cookies of addresses
            async with gateway_to(by_name) as port:
                for _ in range(2):
                    async with raw_client(port) as client:
                        await client.send(get(b"/"))
                        assert (await client.answer()).value(b"Set-Cookie") is not None
        assert len(heads) == 2
        assert not any(b"Cookie" in head for head in heads)

    async def test_there_are_as_many_as_requests_that_wait(self):
        count = 110  # aiohttp's own limit is 100
        async with (
            RawUpstream(Peer.gone) as upstream,
            gateway_to(upstream.url) as port,
            AsyncExitStack() as stack,
        ):
            for _ in range(count):
                client = await stack.enter_async_context(raw_client(port))
                await client.send(get(b"/db/_changes?feed=longpoll"))
            await until(lambda: len(upstream.peers) == count)

    async def test_it_follows_a_database_that_moves(self):
        async with RawUpstream(answering(EMPTY)) as first, RawUpstream(answering(EMPTY)) as second:
            addresses = iter([first.url, second.url])
            gateway = Gateway(lambda: next(addresses))
            async with gateway_to(gateway) as port, raw_client(port) as client:
                for _ in range(2):
                    await client.send(get(b"/"))
                    assert (await client.answer()).status == 200
            assert (len(first.peers), len(second.peers)) == (1, 1)


class TestDatabaseDown:
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    async def test_not_up_yet(self, method):
        async with gateway_to(None) as port, raw_client(port) as client:
            for _ in range(2):
                await client.send(f"{method} /db HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                answer = await client.answer(method)
                assert answer.status == 503
                assert answer.value(b"Retry-After") == b"2"
                assert answer.value(b"Content-Type") == b"application/json"
                if method != "HEAD":
                    assert json.loads(answer.body)["error"] == "service_unavailable"

    async def test_refused(self, own_port):
        async with gateway_to(f"http://127.0.0.1:{own_port}") as port, raw_client(port) as client:
            await client.send(b"PUT /db HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
            answer = await client.answer()
        assert answer.status == 503
        assert set(json.loads(answer.body)) == {"ERROR", "error", "reason"}

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"HTTP/1.1 200 OK\r\nContent-Le",
            b"garbage\r\n\r\n",
            b"HTTP/2 200\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000,
        ],
    )
    async def test_no_answer_or_none_that_can_be_understood(self, answer):
        _, got = await exchange(get(b"/"), answer)
        assert got.status == 502
        assert json.loads(got.body)["error"] == "bad_gateway"

    @pytest.mark.parametrize(
        "start",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n9\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n0\r\n\r\n",
        ],
    )
    async def test_an_answer_that_breaks_off_does_not_look_whole(self, start):
        async def script(peer):
            await peer.head()
            await peer.send(start)
            await peer.close()

        async with gateway_before(script) as (_, client):
            await client.send(get(b"/"))
            with suppress(asyncio.IncompleteReadError):
                assert (await client.answer()).status == 502

    async def test_an_http_1_0_client_sees_a_reset_when_an_answer_breaks_off(self):
        async def script(peer):
            await peer.head()
            await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            await peer.close()

        async with gateway_before(script) as (_, client):
            await client.send(b"GET / HTTP/1.0\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                await client.reader.read()


@pytest.mark.parametrize(("method", "status"), [(b"GET", 503), (b"PUT", 502)])  # which may have been done
async def test_what_waits_for_a_database_that_is_silent_ends_but_a_view_which_may_take_long(method, status):
    asked, is_built = [], asyncio.Event()

    async def script(peer):
        asked.append(await peer.head())
        if b"/_view/" in asked[-1]:
            await is_built.wait()
            await peer.send(EMPTY)
        await peer.gone()

    async with RawUpstream(script) as upstream:
        gateway = Gateway(lambda: upstream.url)
        async with gateway_to(gateway) as port, raw_client(port) as client, raw_client(port) as other:
            await client.send(method + get(b"/db/doc").removeprefix(b"GET"))
            await other.send(get(b"/db/_design/d/_view/v"))
            await until(lambda: len(asked) == 2)
            gateway.give_up()
            answer = await client.answer()
            assert (answer.status, answer.value(b"Retry-After")) == (status, b"2" if status == 503 else None)
            is_built.set()
            assert (await other.answer()).status == 200
