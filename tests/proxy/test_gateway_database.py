"""The front door before the real database: through it or beside it, the answers are the same."""

import hashlib
import json

import pytest

from support.gateway_doors import HOST, Step, ask, port_of, steady, transcript
from support.gateway_server import gateway_to
from support.gateway_steps import ATTACHMENTS, CREATE, DB, DELETE, DOCUMENTS, READING, SERVER, SLASHED_NAME
from support.raw_http import raw_client


@pytest.fixture
async def door(database_server):
    """The port of a gateway to the database, which holds no `DB`."""
    async with gateway_to(database_server.url) as port:
        await transcript(port, [DELETE], database_server)
        yield port
        await transcript(port, [DELETE], database_server)


@pytest.fixture
async def client(door, database_server):
    """A connection through the gateway, to a database that has a `DB`."""
    async with raw_client(door) as client:
        assert (await ask(client, CREATE, database_server)).status in {201, 202}
        yield client


class TestSameAnswers:
    @pytest.mark.parametrize(
        "steps", [DOCUMENTS, READING, ATTACHMENTS], ids=["documents", "reading", "attachments"]
    )
    async def test_in_a_database(self, steps, door, database_server):
        sequence = [CREATE, *steps, DELETE]
        direct = await transcript(port_of(database_server), sequence, database_server)
        through = await transcript(door, sequence, database_server)
        for step, one, other in zip(sequence, direct, through, strict=True):
            assert one == other, str(step)
        assert direct[0].status in {201, 202}

    async def test_in_a_database_with_a_slash_in_its_name(self, door, database_server):
        direct = await transcript(port_of(database_server), SLASHED_NAME, database_server)
        assert await transcript(door, SLASHED_NAME, database_server) == direct
        assert direct[2].status in {201, 202}
        assert direct[4].status == 200

    async def test_of_the_server(self, door, database_server):
        direct = await transcript(port_of(database_server), SERVER, database_server)
        through = await transcript(door, SERVER, database_server)
        for step, one, other in zip(SERVER, direct, through, strict=True):
            assert one == other, str(step)

    @pytest.mark.parametrize(
        ("path", "kind", "part"),
        [(f"{DB}/doc", "application/json", {"n": 1}), (f"{DB}/doc/a.bin", "x/y", b"bytes")],
        ids=["document", "attachment"],
    )
    async def test_to_a_conditional_request(self, path, kind, part, client, database_server):
        put = Step("PUT", path, part, headers=(f"Content-Type: {kind}",))
        assert (await ask(client, put, database_server)).status in {201, 202}
        etag = (await ask(client, Step("GET", path), database_server)).value(b"ETag")
        assert etag is not None
        step = Step("GET", path, headers=(f"If-None-Match: {etag.decode()}",))
        through = await ask(client, step, database_server)
        async with raw_client(port_of(database_server)) as direct:
            assert steady(await ask(direct, step, database_server)) == steady(through)
        assert through.status == 304

    async def test_without_credentials(self, door, database_server):
        if database_server.auth is None:
            pytest.skip("this database asks for no credentials")
        step = Step("GET", DB, headers=("Authorization: Basic bm86bm8=",))
        direct = await transcript(port_of(database_server), [step], database_server)
        assert await transcript(door, [step], database_server) == direct
        assert direct[0].status == 401

    async def test_a_cookie_session(self, client, database_server):
        if database_server.auth is None:
            pytest.skip("this database asks for no credentials")
        name, password = database_server.auth
        form = ("Content-Type: application/x-www-form-urlencoded", "Authorization:")
        login = Step("POST", "/_session", f"name={name}&password={password}".encode(), headers=form)
        cookie = (await ask(client, login, database_server)).value(b"Set-Cookie")
        assert cookie is not None
        step = Step("GET", "/_session", headers=(f"Cookie: {cookie.decode().split(';')[0]}",))
        assert json.loads((await ask(client, step, database_server)).body)["userCtx"]["name"] == name


class TestAddress:
    @pytest.mark.parametrize(("proto", "scheme"), [((), b"http"), (("X-Forwarded-Proto: https",), b"https")])
    async def test_location_names_what_the_client_used(self, proto, scheme, client, database_server):
        step = Step("PUT", f"{DB}/doc", {"n": 1}, headers=proto)
        location = (await ask(client, step, database_server)).value(b"Location")
        assert location == scheme + b"://" + HOST + DB.encode() + b"/doc"

    async def test_the_database_replicates_through_the_door(self, door, client, database_server):
        for n in range(3):
            await ask(client, Step("PUT", f"{DB}/doc{n}", {"n": n}), database_server)
        attach = Step("PUT", f"{DB}/doc3/a.bin", b"bytes" * 9, headers=("Content-Type: x/y",))
        await ask(client, attach, database_server)
        login = {}
        if database_server.auth is not None:
            name, password = database_server.auth
            login = {"auth": {"basic": {"username": name, "password": password}}}
        base = f"http://127.0.0.1:{door}"
        job = {
            "source": {"url": f"{base}{DB}", **login},
            "target": {"url": f"{base}{DB}_copy", **login},
            "create_target": True,
        }
        try:
            answer = json.loads((await ask(client, Step("POST", "/_replicate", job), database_server)).body)
            assert answer["ok"], answer
            assert answer["history"][0]["docs_written"] == 4
        finally:
            await ask(client, Step("DELETE", f"{DB}_copy"), database_server)


class TestLarge:
    @pytest.mark.long
    @pytest.mark.timeout(240)
    async def test_bulk_docs_of_50_mb(self, client, database_server):
        docs = [{"_id": f"doc{n}", "text": f"{n:04}" * 250_000} for n in range(50)]
        bulk = Step("POST", f"{DB}/_bulk_docs", json.dumps({"docs": docs}).encode())
        assert len(bulk.bytes) > 50_000_000
        answer = await ask(client, bulk, database_server)
        assert answer.status in {201, 202}, answer.body
        assert [row["ok"] for row in json.loads(answer.body)] == [True] * 50
        answer = await ask(client, Step("GET", f"{DB}/_all_docs?include_docs=true"), database_server)
        rows = json.loads(answer.body)["rows"]
        assert {row["id"]: row["doc"]["text"] for row in rows} == {doc["_id"]: doc["text"] for doc in docs}

    @pytest.mark.parametrize("chunked", [False, True], ids=["sized", "chunked"])
    async def test_an_attachment_of_5_mb(self, chunked, client, database_server):
        body = hashlib.shake_128(b"growd").digest(5_000_000)
        kind = ("Content-Type: application/octet-stream",)
        put = Step("PUT", f"{DB}/doc/large.bin", body, headers=kind, chunked=chunked)
        assert (await ask(client, put, database_server)).status in {201, 202}
        answer = await ask(client, Step("GET", f"{DB}/doc/large.bin"), database_server)
        assert hashlib.sha256(answer.body).digest() == hashlib.sha256(body).digest()
