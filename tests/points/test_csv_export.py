"""CSV by growd itself: the same bytes as the database's list function, streamed from pages of the view."""

import asyncio
import json
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from urllib.parse import parse_qs, quote
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd.store.index_builds import IndexBuild
from growd.store.reading import pages
from growd_analysis.points import csv_export as export
from support.couch_client import client_of, install_design, reduces
from support.exporting import LIST, POINTS, MadeUpView, front_door, page_answer, random_points, row
from support.raw_http import RawUpstream, raw_client

VIEWS = ["by_variable", "by_timestamp", "all_vars"]
HEAD = b"timestamp,variable,value\r\n"
ALL = f"/{POINTS}/{LIST}/by_timestamp"


@pytest.fixture
def small_pages(monkeypatch):
    """Pages and slices of a few rows, so that few rows fill many."""
    monkeypatch.setattr(pages, "FIRST_ROWS", 3)
    monkeypatch.setattr(pages, "MOST_ROWS", 7)
    monkeypatch.setattr(pages, "SLICE_ROWS", 2)


@asynccontextmanager
async def before(view, **options):
    """A door before a database that is made up, and a connection to it."""
    async with (
        RawUpstream(view) as upstream,
        front_door(upstream.url, **options) as door,
        raw_client(door.port) as client,
    ):
        yield door, client


def get(target=ALL, version="1.1", *headers):
    return "\r\n".join([f"GET {target} HTTP/{version}", "Host: h", *headers, "", ""]).encode()


@asynccontextmanager
async def filled(server, documents, *, has_last):
    """A database of the server with these points, its name, and a client of the server."""
    name = f"export-{uuid4().hex}"
    async with client_of(server.url, server.auth) as couch:
        assert (await couch("PUT", f"/{name}")).status == 201
        try:
            await install_design(couch, f"/{name}", "environmental_data_point", has_last=has_last)
            stored = await couch("POST", f"/{name}/_bulk_docs", {"docs": documents})
            assert all("error" not in outcome for outcome in stored.json)
            for view in VIEWS:  # so that stale=ok finds an index where the database itself is asked
                await couch("GET", f"/{name}/_design/svc/_view/{view}?limit=1")
            yield name, couch
        finally:
            await couch("DELETE", f"/{name}")


@pytest.fixture(params=[(has_last, seed) for has_last in reduces() for seed in (1, 2)], ids=str)
async def both(request, database_server, small_pages):
    """A function that gets an answer through growd's door, and one that asks the database itself."""
    has_last, seed = request.param
    async with (
        filled(database_server, random_points(seed), has_last=has_last) as (name, direct),
        front_door(database_server.url, name) as door,
        client_of(door.url, database_server.auth) as through,
    ):

        async def compared(target):
            ours = await through("GET", f"/{name}/{LIST}/{target}")
            theirs = await direct("GET", f"/{name}/{LIST}/{target}")
            assert ours.status == theirs.status, target
            assert ours.status == 500 or ours.body == theirs.body, target  # CouchDB's 500 has a process id
            assert ours.headers["Content-Type"] == theirs.headers["Content-Type"]
            policy = "Content-Security-Policy"
            assert ours.headers.get(policy) == theirs.headers.get(policy)
            return ours.status

        yield compared, door.noted


# --- The same bytes

ENVIRONMENTS = st.sampled_from(["chamber", "chamber 2", "Kühlraum", {}, None])
TIMES = st.sampled_from([0, 1.5, 1000.0004, 1732233600.123, 1e13, {}])
VARIABLE_KEYS = st.tuples(
    ENVIRONMENTS,
    st.sampled_from(["measured", "desired", {}]),
    st.sampled_from(["air_temperature", "=x", {}]),
    TIMES,
)
NAMES = (
    "timestamp variable value _id time environment category unit quality is_desired extra nope =x toString"
)
COLUMNS = st.lists(st.sampled_from([*NAMES.split(), "", "a,b"]), min_size=1, max_size=6)


@st.composite
def requests(draw):
    """The view and query of an export, as a client would send it."""
    view = draw(st.sampled_from(VIEWS))
    whole = st.tuples(ENVIRONMENTS, TIMES) if view == "by_timestamp" else VARIABLE_KEYS
    keys = whole.flatmap(lambda key: st.integers(0, len(key)).map(lambda length: list(key[:length])))
    options = {
        "startkey": keys,
        "endkey": keys,
        "descending": st.booleans(),
        "inclusive_end": st.booleans(),
        "limit": st.integers(0, 25),
        "skip": st.integers(0, 12),
        "cols": COLUMNS,
    }
    chosen = draw(st.fixed_dictionaries({}, optional=options))
    words = draw(
        st.sampled_from([{}, {"stale": "ok"}, {"update": "true"}, {"update": "lazy"}, {"update": "false"}])
    )
    if view == "by_variable":
        words = words | draw(st.sampled_from([{"reduce": "false"}, {"group_level": "4"}]))
    texts = {name: json.dumps(value) for name, value in chosen.items()} | words
    return f"{view}?" + "&".join(f"{name}={quote(text, safe='[]')}" for name, text in texts.items())


ALWAYS = [
    "by_timestamp",
    "by_variable?group_level=4",
    "by_variable?group_level=4&descending=true",
    "by_variable?group_level=4&descending=true&skip=3&limit=5",
    "by_variable?group_level=4&limit=0",
    "by_variable?reduce=true&group_level=4",
    "by_timestamp?&limit=20&descending=true",
    "all_vars",
    'all_vars?cols=["time","a+b"]',
    "all_vars?cols=%5B%22time%22%2C%22extra%22%5D",
]


@pytest.mark.long
async def test_the_bytes_are_those_of_the_list_function(both):
    compared, noted = both
    loop = asyncio.get_running_loop()

    async def ours_are_the_same(target):
        noted.handed_on.clear()
        if await compared(target) == 200:
            assert noted.handed_on == []  # it was growd that answered
            assert noted.pages

    @settings(max_examples=25)  # of each database
    @given(target=requests())
    def all_are_the_same(target):
        asyncio.run_coroutine_threadsafe(ours_are_the_same(target), loop).result()

    for target in ALWAYS:
        await ours_are_the_same(target)
    await asyncio.to_thread(all_are_the_same)  # hypothesis knows no coroutines


HANDED_ON = [
    "by_variable",  # reduced to one row
    "by_variable?group_level=3",
    "by_variable?group=true",
    "by_variable?reduce=false&group_level=4",
    "by_timestamp?group_level=4",
    "by_timestamp?reduce=true",
    "by_timestamp?limit=1&limit=2",
    "by_timestamp?limit=x",
    "by_timestamp?limit=-1",
    "by_timestamp?descending=TRUE",
    "by_timestamp?cols=7",
    "by_timestamp?cols=[]",
    'by_timestamp?cols=["a',
    "by_timestamp?startkey=[",
    "by_timestamp?startkey=",
    'by_timestamp?key=["chamber",1]',
    'by_timestamp?keys=[["chamber",1]]',
    'by_timestamp?start_key=["chamber",1]',
    "by_timestamp?include_docs=true&limit=1",
    "by_timestamp?unknown=1&limit=1",
    "by_timestamp?stale=no",
    "no_such_view",
    "svc/by_timestamp?limit=2",
]


async def test_what_is_the_databases_to_answer_is_handed_on(both):
    compared, noted = both
    for target in HANDED_ON:
        noted.handed_on.clear()
        await compared(target)
        assert [path.partition("/csv/")[2] for path in noted.handed_on] == [target]


@pytest.mark.parametrize(
    ("method", "header"),
    [("HEAD", "X: y"), ("POST", "X: y"), ("GET", 'If-None-Match: "x"'), ("GET", "Range: bytes=0-3")],
)
async def test_other_requests_are_handed_on(method, header):
    async with before(MadeUpView([row(1)])) as (door, client):
        await client.send(get(f"{ALL}?limit=5", "1.1", header).replace(b"GET", method.encode(), 1))
        # the stand-in answers HEAD with a body, which is no valid HTTP
        assert (await client.answer(method)).status == (502 if method == "HEAD" else 200)
        assert door.noted.handed_on == [f"{ALL}?limit=5"]
        assert door.noted.pages == []


# --- Who may


async def test_the_clients_credentials_go_with_every_page(small_pages):
    view = MadeUpView([row(n) for n in range(20)])
    async with before(view) as (_, client):
        own = ("Authorization: Basic eA==", "Cookie: AuthSession=y", "Accept-Encoding: gzip")
        await client.send(get(ALL, "1.1", *own))
        assert (await client.answer()).status == 200
    assert len(view.heads) > 3
    for head in view.heads:
        assert b"Authorization: Basic eA==\r\n" in head
        assert b"Cookie: AuthSession=y\r\n" in head
        assert b"Via: 1.1 growd\r\n" in head
        assert b"gzip" not in head  # the pages are read here


class Closed(MadeUpView):
    async def answer(self, peer, number):
        await peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nX-Own: 1\r\n\r\n{}")


async def test_a_refusal_is_the_databases_own():
    view = Closed([])
    async with before(view) as (_, client):
        await client.send(get(f"{ALL}?limit=7"))
        answer = await client.answer()
    assert (answer.status, answer.value(b"X-Own"), answer.body) == (401, b"1", b"{}")
    assert [head.split(b" ")[1].rpartition(b"/")[2] for head in view.heads] == [
        b"by_timestamp?reduce=false&limit=7",
        b"by_timestamp?limit=7",
    ]


async def test_a_caller_without_credentials_is_refused_as_by_the_database(database_server):
    if database_server.auth is None:
        pytest.skip("this database asks for no credentials")
    async with (
        filled(database_server, [], has_last=False) as (name, _),
        front_door(database_server.url, name) as door,
        client_of(door.url) as nobody,
    ):
        answer = await nobody("GET", f"/{name}/{LIST}/all_vars")
        assert (answer.status, answer.json["error"]) == (401, "unauthorized")


async def test_without_a_database_it_says_so(own_port):
    async with front_door(f"http://127.0.0.1:{own_port}") as door, client_of(door.url) as client:
        answer = await client("GET", ALL)
        assert (answer.status, answer.json["error"]) == (503, "service_unavailable")


# --- On the wire


async def test_the_table_has_the_headers_of_a_list_and_for_an_old_client_no_chunks():
    async with before(MadeUpView([row(1)])) as (_, client):
        for version in ("1.1", "1.1", "1.0"):  # the connection is kept
            await client.send(get(ALL, version))
            answer = await client.answer()
            assert answer.body == HEAD + b"1,x,1\r\n"
            assert answer.value(b"Content-Type") == b"text/csv; charset=utf-8; header=present"
            assert answer.values(b"Content-Length") == []
            assert (answer.values(b"Transfer-Encoding") == []) == (version == "1.0")


async def test_the_first_rows_do_not_wait_for_the_next_page(small_pages):
    more = asyncio.Event()

    class Slow(MadeUpView):
        async def answer(self, peer, number):
            if number > 1:
                await more.wait()
            await super().answer(peer, number)

    async with before(Slow([row(n) for n in range(5)])) as (_, client):
        await client.send(get())
        await client.head()
        found = b""
        async for chunk in client.chunks():
            found += chunk
            if found.endswith(b"2,x,2\r\n"):
                more.set()
    assert found == HEAD + b"".join(b"%d,x,%d\r\n" % (n, n) for n in range(5))


class Endless(MadeUpView):
    async def answer(self, peer, number):
        texts = [row(1000 * number + n, value="x" * 9_000) for n in range(101)]
        await peer.send(page_answer(texts))


async def test_a_client_that_does_not_read_stops_the_pages():
    view = Endless([])
    async with before(view, stall_limit=0.3) as (door, client):
        client.writer.transport.pause_reading()
        await client.send(get(f"{ALL}?limit=900000000"))
        await door.noted.answered.wait()  # it is let go, or this goes on for ever
    assert 1 < len(view.heads) < 100


class Hanging(MadeUpView):
    async def answer(self, peer, number):
        if number > 1:
            await peer.gone()
        else:
            await super().answer(peer, number)


async def test_a_client_that_goes_ends_the_reading(small_pages):
    view = Hanging([row(n) for n in range(9)])
    async with RawUpstream(view) as upstream, front_door(upstream.url) as door:
        async with raw_client(door.port) as client:
            await client.send(get())
            await client.until(b"2,x,2\r\n")
        await upstream.finished()  # growd closed the connection of the page that hung


async def test_an_old_client_sees_that_its_table_is_not_whole_as_growd_leaves(small_pages):
    async with RawUpstream(Hanging([row(n) for n in range(9)])) as upstream, AsyncExitStack() as stack:
        async with front_door(upstream.url) as door:
            client = await stack.enter_async_context(raw_client(door.port))
            await client.send(get(ALL, "1.0"))
            await client.until(b"2,x,2\r\n")
        with pytest.raises(ConnectionResetError):
            await client.reader.read()


AGAIN = [row(0, ["e", 2]), *(row(n) for n in range(1, 4))]  # from another document than the one asked for
BROKEN = {
    "closed": b"",
    "in the middle": page_answer([row(3)])[:-9],
    "an error": b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}",
    "an error with 200": b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"error":"x"}',
    "no rows": page_answer([1, 2]),
    "the same rows again": page_answer(AGAIN),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_table_that_is_not_whole_is_told_from_a_whole_one(small_pages, broken, version):
    class Breaking(MadeUpView):
        async def answer(self, peer, number):
            if number > 1:
                await peer.send(broken)
                await peer.close()
            else:
                await super().answer(peer, number)

    async with before(Breaking([row(n) for n in range(9)])) as (_, client):
        await client.send(get(ALL, version))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await client.answer()


class Deleting(MadeUpView):
    async def answer(self, peer, number):
        await super().answer(peer, number)
        self.rows = [row for row in self.rows if row["id"] != "p000002"]  # the last of the first page


async def test_a_row_deleted_between_two_pages_takes_no_other_with_it(small_pages):
    async with before(Deleting([row(n) for n in range(8)])) as (_, client):
        await client.send(get())
        assert (await client.answer()).body == HEAD + b"".join(b"%d,x,%d\r\n" % (n, n) for n in range(8))


async def test_a_page_that_would_be_too_large_is_asked_for_again_with_fewer_rows(monkeypatch):
    monkeypatch.setattr(pages, "LARGEST_PAGE", 100_000)
    view = MadeUpView([row(n, value="x" * (150_000 if n == 40 else 2_000)) for n in range(60)])
    async with before(view) as (_, client):
        await client.send(get(f"{ALL}?cols=%5B%22timestamp%22%5D"))
        assert (await client.answer()).body == b"timestamp\r\n" + b"".join(b"%d\r\n" % n for n in range(60))
    assert b"limit=12" in view.heads[1]


async def test_a_list_reads_no_page_behind_its_limit_of_keys():
    queries = []

    async def fetch(query, _most):
        queries.append(query)
        asked = {
            name: json.loads(values[0])
            for name, values in parse_qs(query).items()
            if name != "startkey_docid"
        }
        first = asked.get("startkey", 0)
        rows = [{"id": "d", "key": n, "value": {"_id": "d"}} for n in range(first, first + asked["limit"])]
        return json.dumps({"rows": rows}).encode()

    table = export.parse_csv_list("by_variable", "group_level=4&limit=2&cols=%5B%22_id%22%5D")
    assert table is not None
    async with aclosing(table.pieces(fetch)) as pieces:
        assert b"".join([piece async for piece in pieces]) == b"_id\r\nd\r\nd\r\n"
    assert len(queries) <= 2  # the second is read ahead


# --- While an index is built

BUILD = IndexBuild(POINTS, "svc", left=300_000, percent=25, seconds_left=120)


class Indexing(MadeUpView):
    """Answers nothing from the index until it is done."""

    def __init__(self, rows):
        super().__init__(rows)
        self.done = asyncio.Event()

    async def answer(self, peer, number):
        await self.done.wait()
        await super().answer(peer, number)


@pytest.mark.parametrize("target", [ALL, f"/{POINTS}/{LIST}/by_variable?group_level=3"])
async def test_an_export_says_at_once_that_its_index_is_being_built(target, monkeypatch):
    monkeypatch.setattr(export, "PATIENCE_S", 0.01)

    async def building(database):
        assert database == POINTS
        return BUILD

    async with before(Indexing([]), building=building) as (door, client):
        for _ in range(2):  # the connection is kept
            await client.send(get(target))
            answer = await client.answer()
            assert (answer.status, answer.value(b"Retry-After")) == (503, b"120")
            told = json.loads(answer.body)
            assert told["error"] == "index_building"
            assert told["reason"].startswith("the index svc of points is being built: 25 %")
        assert door.noted.handed_on == []


@pytest.mark.parametrize("build", [None, IndexBuild(POINTS, "svc", left=export.SHORT_BUILD)])
async def test_an_export_waits_for_an_index_that_lacks_little(build, monkeypatch):
    monkeypatch.setattr(export, "PATIENCE_S", 0.01)
    view = Indexing([row(1)])
    asked = 0

    async def building(_):
        nonlocal asked
        asked += 1
        if asked == 3:
            view.done.set()
        return build

    async with before(view, building=building) as (_, client):
        await client.send(get())
        answer = await client.answer()
    assert (answer.status, answer.body) == (200, HEAD + b"1,x,1\r\n")
