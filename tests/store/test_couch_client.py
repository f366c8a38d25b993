"""The database client: its requests, and the error for each bad answer."""

import base64
import json

import pytest
from aiohttp import web
from faulty_server import FaultyServer, answer_lost, half_an_answer, half_the_rows, never, status

from growd.store.couch import Couch
from growd.store.errors import CouchRefusedError, CouchUnavailableError
from support.rows import each
from support.stand_in import StandIn


def answering(body):
    async def step(_server, _request, _body):
        return web.Response(body=body, content_type="application/json")

    return step


DOCUMENTS = [{"_id": "a", "value": 1}, {"_id": "b", "value": 2}]


@each("code", [408, 429, 500, 504])
async def test_transient_statuses_mean_unavailable(server, session, code):
    server.script.append(status(code, "internal_server_error", "No DB shards could be opened."))
    with pytest.raises(CouchUnavailableError, match=f"{code} internal_server_error: No DB shards") as caught:
        await Couch(session, server.url).bulk_docs("db", DOCUMENTS)
    assert caught.value.status == code
    assert isinstance(caught.value, ConnectionError)


@each("code", [301, 401, 499])
async def test_other_answers_that_are_not_2xx_mean_refused(server, session, code):
    server.script.append(status(code, "unauthorized", "Name or password is incorrect."))
    with pytest.raises(CouchRefusedError, match=f"POST /db/_bulk_docs with {code} unauthorized") as caught:
        await Couch(session, server.url).bulk_docs("db", DOCUMENTS)
    told = caught.value.status, caught.value.error, caught.value.reason
    assert told == (code, "unauthorized", "Name or password is incorrect.")


@each("step", [half_an_answer, half_the_rows, answer_lost])
async def test_an_incomplete_answer_is_an_error(server, session, step):
    server.script.append(step)
    with pytest.raises(CouchUnavailableError) as caught:
        await Couch(session, server.url).bulk_docs("db", DOCUMENTS)
    assert caught.value.status is None


@each("body", ["", "{", "[1]", '{"a": ' * 100_000, "\xff"])
async def test_an_answer_in_another_form_is_an_error(server, session, body):
    server.script.append(answering(body))
    with pytest.raises(CouchUnavailableError):
        await Couch(session, server.url).server()


@each(
    "answer",
    [
        b"\x00\xffgarbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_an_error(session, answer):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with StandIn(serve) as server:
        with pytest.raises(CouchUnavailableError):
            await Couch(session, server.url).server()


async def test_a_refused_connection_means_unavailable(session, said):
    async with FaultyServer() as server:
        url = server.url
    with said.raises(CouchUnavailableError):
        await Couch(session, url).server()


async def test_a_server_that_never_answers(server, session, said):
    server.script.append(never)
    with said.raises(CouchUnavailableError):
        await Couch(session, server.url, timeout=0.05).server()


async def test_an_endless_answer_is_cut_off(server, session, said):
    server.script.append(answering(json.dumps({"a": "x" * 300_000})))
    with said.raises(CouchUnavailableError):
        await Couch(session, server.url, max_answer=100_000).server()


async def test_the_address_may_change_and_may_be_missing(server, session, said):
    addresses = [None, server.url]
    couch = Couch(session, lambda: addresses.pop(0))
    with said.raises(CouchUnavailableError):
        await couch.server()
    assert await couch.server() == {"couchdb": "Welcome"}


async def test_credentials_are_sent_and_never_shown(server, session):
    def sent():
        return base64.b64decode(server.headers[-1]["Authorization"].removeprefix("Basic ")).decode()

    in_address = server.url.replace("http://", "http://grow%40home:p%C3%A4ss@")
    await Couch(session, in_address).server()
    assert sent() == "grow@home:päss"
    await Couch(session, in_address, credentials=("other", "secret")).server()
    assert sent() == "other:secret"
    await Couch(session, server.url).server()
    assert "Authorization" not in server.headers[-1]

    await server.stop()
    with pytest.raises(CouchUnavailableError) as caught:
        await Couch(session, in_address).server()
    assert "p%C3" not in str(caught.value)
    assert "päss" not in str(caught.value)


async def test_names_are_encoded_and_keys_are_json(server, session):
    couch = Couch(session, server.url + "/prefix/")
    server.script.append(answering('{"rows": [{"id": "a"}]}'))
    rows = await couch.view(
        "a/b+c", "svc", "by variable", startkey=["e", {}], key="k", stale="update_after", reduce=False
    )
    assert rows == [{"id": "a"}]
    await couch.get("db", "_design/s/vc")
    await couch.get("db", "_local/x")
    await couch.get("db", "a/b?c#d%41é")
    assert server.paths == [
        (
            "/prefix/a%2Fb%2Bc/_design/svc/_view/by%20variable"
            "?startkey=%5B%22e%22%2C%7B%7D%5D&key=%22k%22&stale=update_after&reduce=false"
        ),
        "/prefix/db/_design/s%2Fvc",
        "/prefix/db/_local/x",
        "/prefix/db/a%2Fb%3Fc%23d%2541%C3%A9",
    ]
