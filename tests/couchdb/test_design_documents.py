"""Only the owner writes design documents of the embedded server, whose functions run inside it."""

from uuid import uuid4

import pytest
from aiohttp import web

from support.couch_client import client_of
from support.database import embedded_server
from support.http_server import serving_http
from support.rows import each

ATTACK = {"views": {"run": {"map": "function (doc) { emit(isArray.constructor('return process')().pid); }"}}}
OWN = {"views": {"all": {"map": "function (doc) { emit(doc._id); }"}}}
INDEX = {
    "language": "query",
    "views": {
        "i": {"map": {"fields": {"a": "asc"}}, "reduce": "_count", "options": {"def": {"fields": ["a"]}}}
    },
}
MULTIPART = b'--q\r\nContent-Type: application/json\r\n\r\n{"_id": "_design/x", "_attachments": {}}\r\n--q--'
FORM = {"Content-Type": "multipart/related; boundary=q"}


def index_of(fields, *, view="i", **more):
    """An index of `a`, defined by `fields`, with `more` in its map."""
    options = {} if fields is None else {"def": {"fields": fields}}
    return {
        "language": "query",
        "views": {view: {"map": {"fields": {"a": "asc"}, **more}, "reduce": "_count", "options": options}},
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """An embedded server as growd starts it."""
    folder = tmp_path_factory.mktemp("guarded")
    with embedded_server(folder, client_design_documents=False) as process:
        yield process


@pytest.fixture
async def stranger(guarded):
    async with client_of(guarded.url) as client:
        yield client


@pytest.fixture
async def database(guarded, stranger):
    """A database with a document and growd's own design document."""
    path = f"/test-{uuid4().hex}"
    assert (await stranger("PUT", path)).status == 201
    assert (await stranger("PUT", f"{path}/a", {"n": 1})).status == 201
    async with client_of(guarded.url, guarded.owner) as owner:
        assert (await owner("PUT", f"{path}/_design/svc", OWN)).status == 201
    return path


async def designs(client, database):
    return [row["id"] for row in (await client("GET", f"{database}/_design_docs")).json["rows"]]


@each(
    ("method", "path", "body", "headers"),
    [
        ("PUT", "/_design/x", ATTACK, {}),
        ("PUT", "/_design%2Fx", ATTACK, {}),
        ("PUT", "/%5Fdesign%2Fx", ATTACK, {}),
        ("PUT", "/%5f%64esign%2fx%2fy", ATTACK, {}),
        ("PUT", "/_design/x?new_edits=false", {**ATTACK, "_rev": "1-a"}, {}),
        ("PUT", "/_design/x?by=growd", ATTACK, {"Authorization": "Basic Z3Jvd2Q6"}),
        ("PUT", "/_design/x", {**INDEX, "lists": {"l": "function () {}"}}, {}),
        ("PUT", "/_design/x", {**ATTACK, "language": "query"}, {}),
        ("PUT", "/_design/x", {"language": "query", "views": {"i": {"map": None, "reduce": "_count"}}}, {}),
        ("PUT", "/_design/x", {"language": "query", "views": None}, {}),
        ("PUT", "/_design/x", index_of(None), {}),
        ("PUT", "/_design/x", index_of([]), {}),
        ("PUT", "/_design/x", index_of(["b"]), {}),
        ("PUT", "/_design/x", index_of([{"a": "asc", "b": "asc"}]), {}),
        ("PUT", "/_design/x%2Fy", INDEX, {}),
        ("PUT", "/_design/x", index_of(["a"], view="i/j"), {}),
        ("PUT", "/_design/x", index_of(["a"], partial_filter_selector={"b": {"$regex": "(?=a)"}}), {}),
        ("PUT", "/_design/x", MULTIPART, FORM),
        ("PUT", "/_design/x/page.html", b"<html>", {"Content-Type": "text/html"}),
        ("POST", "", {**ATTACK, "_id": "_design/x"}, {}),
        ("COPY", "/a", None, {"Destination": "_design/x"}),
        ("COPY", "/a", None, {"Destination": "%5Fdesign%2Fx"}),
        ("DELETE", "/_design/svc?rev={rev}", None, {}),
        ("PUT", "/_design/svc?rev={rev}", INDEX, {}),
        ("PUT", "/_design/svc/page.html?rev={rev}", b"<html>", {"Content-Type": "text/html"}),
        ("DELETE", "/_index/_design%2Fsvc/json/all", None, {}),
    ],
)
async def test_a_client_cannot_write_one(  # noqa: PLR0917  the parts of a request
    stranger, database, method, path, body, headers
):
    rev = (await stranger("GET", f"{database}/_design/svc")).json["_rev"]
    answer = await stranger(method, database + path.format(rev=rev), body, headers=headers)
    assert (answer.status, answer.json["error"]) == (403, "forbidden")
    assert "client_design_documents = true" in answer.json["reason"]
    assert await designs(stranger, database) == ["_design/svc"]
    assert (await stranger("GET", f"{database}/_design/svc")).json["_rev"] == rev


@pytest.mark.parametrize("new_edits", ["true", "false"])
async def test_of_many_documents_only_the_design_documents_are_refused(stranger, database, new_edits):
    docs = [
        {**ATTACK, "_id": "_design/x", "_rev": "1-a"},
        {"_id": "_design/svc", "_rev": "9-f", "_deleted": True},
        {**INDEX, "_id": "_design/svc", "_rev": "9-f"},
        {"_id": "b", "_rev": "1-a"},
    ]
    if new_edits == "true":
        docs = [{name: value for name, value in doc.items() if name != "_rev"} for doc in docs]
    answer = await stranger(
        "POST", f"{database}/_bulk_docs", {"docs": docs, "new_edits": new_edits == "true"}
    )
    assert [row["id"] for row in answer.json if row.get("error") == "forbidden"] == [
        "_design/x", "_design/svc", "_design/svc",
    ]  # fmt: skip
    assert (await stranger("GET", f"{database}/b")).status == 200
    assert await designs(stranger, database) == ["_design/svc"]


async def test_a_replication_copies_none(stranger, database, own_server):
    async with client_of(own_server.url) as far:
        await far("PUT", "/far")
        await far("PUT", "/far/_design/x", ATTACK)
        await far("PUT", "/far/b", {})
    ends = {"source": f"{own_server.url}/far", "target": database.strip("/")}
    answer = await stranger("POST", "/_replicate", ends)
    assert answer.json["history"][0]["doc_write_failures"] == 1
    assert (await stranger("GET", f"{database}/b")).status == 200
    assert await designs(stranger, database) == ["_design/svc"]


async def test_an_index_without_functions_can_be_made_and_deleted(stranger, database):
    put = await stranger("PUT", f"{database}/_design/p", INDEX)
    assert put.status == 201
    index = {"index": {"fields": ["n"]}, "ddoc": "i", "name": "n"}
    made = await stranger("POST", f"{database}/_index", index)
    assert made.json["result"] == "created"
    found = await stranger("POST", f"{database}/_find", {"selector": {"n": 1}})
    assert [doc["_id"] for doc in found.json["docs"]] == ["a"]
    assert (await stranger("DELETE", f"{database}/_design/p?rev={put.json['rev']}")).status == 200
    assert (await stranger("DELETE", f"{database}/_index/_design%2Fi/json/n")).json == {"ok": True}
    assert await designs(stranger, database) == ["_design/svc"]


@pytest.mark.parametrize("end", ["source", "target"])
async def test_a_replication_follows_no_redirect(stranger, database, end):
    asked = []

    async def redirect(request):
        asked.append(request.method)
        inside = request.path_qs.replace("/far", "/_replicator", 1)
        return web.Response(status=307, headers={"Location": stranger.url + inside})

    async with serving_http(redirect) as far:
        ends = {"source": database.strip("/"), "target": database.strip("/"), end: f"{far}/far"}
        answer = await stranger("POST", "/_replicate", ends)
    assert asked
    assert (answer.status, answer.json["error"]) == (502, "redirected")
    assert "name the address it leads to" in answer.json["reason"]


async def test_a_regular_expression_that_backtracks_without_end_is_answered(stranger, database):
    assert (await stranger("PUT", f"{database}/long", {"text": "a" * 42 + "!"})).status == 201
    answer = await stranger("POST", f"{database}/_find", {"selector": {"text": {"$regex": "^(a+)+$"}}})
    assert answer.json["docs"] == []


async def test_functions_cannot_reach_the_process(own_server):
    starts = enumerate(("isArray", "doc.constructor", "emit"))
    escape = "function (doc) {{ emit({}.constructor('return typeof process')()); }}"
    views = {f"run{n}": {"map": escape.format(start)} for n, start in starts}
    async with client_of(own_server.url) as client:
        await client("PUT", "/db")
        await client("PUT", "/db/a", {})
        await client("PUT", "/db/_design/x", {"views": views})
        for view in views:
            rows = (await client("GET", f"/db/_design/x/_view/{view}")).json["rows"]
            assert all(row["key"] == "undefined" for row in rows), view
