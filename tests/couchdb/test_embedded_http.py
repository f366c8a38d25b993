"""The HTTP of the embedded server: it answers as CouchDB, and no request ends it."""

import asyncio
import gzip
import itertools
import json
from urllib.parse import quote, urlsplit

import aiohttp
import pytest

from support.couch_client import client_of
from support.database import embedded_server
from support.raw_http import raw_client
from support.rows import each

TEXT = b"0123456789"
JSON = {"Content-Type": "application/json"}
HTML = {"Content-Type": "text/html"}


@pytest.fixture
async def text(node, store):
    """The path of an attachment."""
    assert (await node("PUT", f"{store}/doc/page.html", TEXT, headers=HTML)).status == 201
    return f"{store}/doc/page.html"


async def put(node, path, document):
    answer = await node("PUT", path, document)
    assert answer.status == 201, answer.json
    return str(answer.json["rev"])


@each("name", ["a/b", "a+b", "a$b", "a(b)", "a-b_c"])
async def test_database_names_with_special_characters(node, name):
    path = "/" + quote(name, safe="")
    plain = "/ab"  # "a/b" without its slash
    for database in (path, plain):
        assert (await node("PUT", database)).status == 201
    await put(node, f"{path}/doc", {"here": True})
    assert name in (await node("GET", "/_all_dbs")).json
    assert (await node("GET", path)).json["db_name"] == name
    assert (await node("GET", plain)).json["doc_count"] == 0
    for database in (path, plain):
        assert (await node("DELETE", database)).status == 200
    assert name not in (await node("GET", "/_all_dbs")).json


@each("name", ["Upper", "1st", "a.b", "..%2f..%2fetc", "a b", "%ff", "x" * 300])
async def test_illegal_database_names_are_refused(node, name):
    answer = await node("PUT", "/" + name.replace(" ", "%20"))
    assert (answer.status, answer.json["error"]) == (400, "illegal_database_name")


async def test_a_database_that_exists_and_one_that_does_not(node, store):
    assert (await node("PUT", store)).status == 412
    await put(node, f"{store}/doc", {})
    assert (await node("DELETE", store)).status == 200
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/doc"), ("GET", "/_changes"), ("PUT", "/doc")):
        answer = await node(method, store + path, {} if method == "PUT" else None)
        assert (answer.status, answer.json["error"]) == (404, "not_found")
    assert (await node("PUT", store)).status == 201
    assert (await node("GET", store)).json["doc_count"] == 0


async def test_a_write_under_way_does_not_bring_a_deleted_database_back(node, store):
    is_deleted = asyncio.Event()

    async def slow_body():
        yield b'{"a": '
        await is_deleted.wait()
        yield b"1}"

    url = f"{node.url}{store}/doc"
    write = asyncio.create_task(node.session.put(url, data=slow_body()), name="write")
    for _ in range(5):  # the server has read the beginning by then
        await node("GET", "/")
    assert (await node("DELETE", store)).status == 200
    is_deleted.set()
    async with await write as answer:
        assert answer.status == 404
    assert (await node("GET", store)).status == 404


VIEW = {"views": {"v": {"map": "function (doc) { emit(doc.n, null); }"}}}
LONG = {
    "view": ("GET", "/_design/d/_view/v"),
    "queries": ("POST", "/_design/d/_view/v/queries", {"queries": [{}, {"limit": 1}]}),
    "all_docs": ("GET", "/_all_docs?include_docs=true"),
    "find": ("POST", "/_find", {"selector": {"n": {"$gt": 0}}, "limit": 2_000}),
    "changes": ("GET", "/_changes?include_docs=true"),
    "bulk_docs": ("POST", "/_bulk_docs", {"docs": [{"n": n} for n in range(2_000)]}),
    "index": ("POST", "/_index", {"index": {"fields": ["n"]}}),
}


async def test_what_is_asked_of_a_database_that_is_deleted_meanwhile_is_answered(own_server):
    async with client_of(own_server.url, own_server.owner) as node:
        for question in LONG.values():
            assert (await node("PUT", "/db")).status == 201
            docs = [{"_id": f"{n:04}", "n": n, "text": "x" * 100} for n in range(2_000)]
            assert (await node("POST", "/db/_bulk_docs", {"docs": docs})).status == 201
            assert (await node("PUT", "/db/_design/d", VIEW)).status == 201
            method, path, *body = question
            asking = [asyncio.create_task(node(method, f"/db{path}", *body), name=path) for _ in range(3)]
            for _ in range(5):  # the server has read them by then
                await node("GET", "/")
            assert (await node("DELETE", "/db")).status == 200
            answers = await asyncio.gather(*asking)
            assert {each.status for each in answers} <= {404, 200, 201}, path  # some may end before
            assert (await node("GET", "/db")).status == 404
    assert own_server.process.poll() is None
    assert own_server.log.read_text() == ""


async def test_a_database_that_many_make_and_delete_at_once_can_be_used_afterwards(own_server):
    async with client_of(own_server.url, own_server.owner) as node:
        whole = [("DELETE", ""), ("PUT", ""), ("GET", ""), ("PUT", ""), ("DELETE", ""), ("PUT", "")]
        inside = [("PUT", "/doc", {}), ("GET", "/_all_docs"), *LONG.values()]
        for number in range(12):
            assert (await node("PUT", "/db")).status in {201, 412}
            asked = [*whole, *inside] if number % 2 else whole
            asking = [asyncio.create_task(node(method, f"/db{path}", *body)) for method, path, *body in asked]
            answers = await asyncio.gather(*asking)
            assert {each.status for each in answers} <= {200, 201, 404, 412}
            assert (await node("PUT", "/db")).status in {201, 412}
            assert (await node("GET", "/db")).status == 200
            for method, path, body in (LONG["index"], LONG["find"]):
                assert (await node(method, f"/db{path}", body)).status == 200
            assert (await node("DELETE", "/db")).status == 200
            assert (await node("GET", "/db")).status == 404
    assert own_server.process.poll() is None
    assert own_server.log.read_text() == ""


async def test_the_tag_of_a_document_is_its_revision(node, store):
    rev = await put(node, f"{store}/doc", {"a": 1})
    answer = await node("GET", f"{store}/doc")
    assert (answer.json, answer.headers["ETag"]) == ({"_id": "doc", "_rev": rev, "a": 1}, f'"{rev}"')
    known = await node("GET", f"{store}/doc", headers={"If-None-Match": f'"{rev}"'})
    assert (known.status, known.body) == (304, b"")
    head = await node("HEAD", f"{store}/doc")
    assert (head.status, head.headers["ETag"], head.body) == (200, f'"{rev}"', b"")


async def test_a_document_is_json_with_any_content_type(node, store):
    # `curl -X PUT -d` sends the type of a form
    for n, kind in enumerate(["application/x-www-form-urlencoded", "text/plain", "application/json"]):
        path = f"{store}/doc{n}"
        assert (await node("PUT", path, b'{"a": 1}', headers={"Content-Type": kind})).status == 201
        assert (await node("GET", path)).json["a"] == 1


@each("body", [b"", b"[]", b"null", b"{", b"5"])
async def test_a_malformed_document_is_refused(node, store, body):
    for method, path in (("PUT", f"{store}/doc"), ("POST", store)):
        assert (await node(method, path, body, headers=JSON)).status == 400
    assert (await node("GET", store)).json["doc_count"] == 0


DEEP = "[" * 600


async def test_brackets_in_strings_do_not_count_as_nesting(node, store):
    texts = [DEEP, '"' + DEEP, "\\" + DEEP, DEEP + "\\", "", "a\\\\", '\\"', '"\\"' + DEEP]
    for n, text in enumerate(texts):
        await put(node, f"{store}/doc{n}", {"text": text, text: "]", "list": [[], [[]]] * 300})
        assert (await node("GET", f"{store}/doc{n}")).json["text"] == text
        body = json.dumps({"text": text, text: 1, "list": []}).replace("[]", DEEP + "]" * 600).encode()
        answer = await node("PUT", f"{store}/deep", body, headers=JSON)
        assert (answer.status, answer.json["error"]) == (400, "bad_request")
        assert "nested deeper" in answer.json["reason"]


async def test_an_attachment_stays_as_it_is(node, store):
    await node("PUT", f"{store}/doc/a.json", b'{ "a":1 }', headers=JSON)
    assert (await node("GET", f"{store}/doc/a.json")).body == b'{ "a":1 }'
    await node("PUT", f"{store}/_design/d/sub/page.html", TEXT, headers=HTML)
    assert (await node("GET", f"{store}/_design/d/sub/page.html")).body == TEXT


async def test_location_is_the_address_that_the_client_used(node, store):
    outside = {"Host": "chamber.local:5984"}
    answer = await node("PUT", f"{store}/a%2Fb", {}, headers=outside)
    assert answer.headers["Location"] == f"http://chamber.local:5984{store}/a%2Fb"
    answer = await node("POST", store, {"_id": "c d"}, headers=outside)
    assert answer.headers["Location"] == f"http://chamber.local:5984{store}/c%20d"
    forwarded = {"X-Forwarded-Host": "grow.example", "X-Forwarded-Proto": "https"}
    answer = await node("PUT", f"{store}/e", {}, headers=forwarded)
    assert answer.headers["Location"] == f"https://grow.example{store}/e"


async def test_copy_includes_attachments(node, store):
    attachments = {"t": {"data": "aGk=", "content_type": "text/plain"}}
    await put(node, f"{store}/from", {"a": 1, "_attachments": attachments})
    answer = await node("COPY", f"{store}/from", headers={"Destination": "to"})
    assert answer.status == 201
    copy = (await node("GET", f"{store}/to")).json
    assert (copy["a"], copy["_rev"]) == (1, answer.json["rev"])
    assert (await node("GET", f"{store}/to/t")).body == b"hi"
    assert (await node("COPY", f"{store}/from")).status == 400


@each(
    ("asked", "expected"),
    [
        ({}, (200, TEXT, None)),
        ({"Range": "bytes=2-4"}, (206, b"234", "bytes 2-4/10")),
        ({"Range": "bytes=-3"}, (206, b"789", "bytes 7-9/10")),
        ({"Range": "bytes=8-"}, (206, b"89", "bytes 8-9/10")),
        ({"Range": "bytes=0-1,4-5"}, (200, TEXT, None)),
        ({"Range": "lines=1-2"}, (200, TEXT, None)),
    ],
)
async def test_attachments_whole_and_in_ranges(node, text, asked, expected):
    answer = await node("GET", text, headers=asked)
    assert (answer.status, answer.body, answer.headers.get("Content-Range")) == expected
    assert answer.headers["Content-Type"] == "text/html"
    beyond = await node("GET", text, headers={"Range": "bytes=10-"})
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, "bytes */10")


@each("headers", [{}, {"Range": "bytes=0-1"}, {"Range": "bytes=900-"}])
async def test_the_scripts_of_an_attachment_do_not_run(node, text, headers):
    answer = await node("GET", text, headers=headers)
    assert answer.headers["Content-Security-Policy"] == "sandbox"
    tag = {"If-None-Match": answer.headers["ETag"]}
    again = await node("GET", text, headers=tag)  # the browser updates what it keeps
    assert (again.status, again.headers["Content-Security-Policy"]) == (304, "sandbox")


async def test_the_scripts_of_a_list_do_not_run(node, store):
    start = 'start({headers: {"Content-Type": "text/html", "Content-Security-Policy": "default-src *"}})'
    design = {
        "views": {"all": {"map": "function (doc) { emit(doc._id); }"}},
        "lists": {"page": f"function () {{ {start}; return '<script></script>'; }}"},
    }
    await put(node, f"{store}/_design/d", design)
    answer = await node("GET", f"{store}/_design/d/_list/page/all")
    assert (answer.status, answer.headers["Content-Security-Policy"]) == (200, "sandbox")


async def test_an_attachment_from_a_form(node, store):
    rev = await put(node, f"{store}/doc", {"a": 1})
    form = aiohttp.FormData({"_rev": rev})
    form.add_field("_attachments", TEXT, filename="file", content_type="text/plain")
    async with node.session.post(f"{node.url}{store}/doc", data=form) as answer:
        assert answer.status == 201
    assert (await node("GET", f"{store}/doc")).json["a"] == 1
    assert (await node("GET", f"{store}/doc/file")).body == TEXT


def related(*parts):
    """A multipart/related body; each part has its headers, an empty line and its content."""
    return b"".join(b"--q\r\n" + part + b"\r\n" for part in parts) + b"--q--"


RELATED = {"Content-Type": 'multipart/related; boundary="q"'}
FOLLOWING = b"""\r\n{"_attachments": {"a": {"follows": true, "length": 2, "content_type": "text/x"}}}"""


async def test_attachments_that_follow_their_document(node, store):
    attachments = {
        "first": {"follows": True, "content_type": "text/x", "length": 6},
        "second": {"follows": True},
        "inside": {"data": "aGk=", "content_type": "text/plain"},
    }
    body = related(
        b"Content-Type: application/json\r\n\r\n" + json.dumps({"_attachments": attachments}).encode(),
        b'Content-Type: text/y\r\nContent-Disposition: attachment; filename="second"\r\n\r\n' + TEXT,
        b"\r\n\r\n--\r\n",
    )
    written = await node("PUT", f"{store}/doc", body, headers=RELATED)
    assert written.status == 201
    for name, content, kind in (
        ("first", b"\r\n--\r\n", "text/x"), ("second", TEXT, "text/y"), ("inside", b"hi", "text/plain"),
    ):  # fmt: skip
        read = await node("GET", f"{store}/doc/{name}")
        assert (read.body, read.headers["Content-Type"]) == (content, kind)
    again = await node("PUT", f"{store}/doc", related(b"\r\n{}"), headers=RELATED)
    assert again.status == 409


async def test_an_attachment_that_couchdb_compressed_is_stored_as_it_was(node, store):
    packed = gzip.compress(TEXT * 100)
    about = {"follows": True, "content_type": "text/plain", "length": len(TEXT) * 100}
    packed_about = about | {"encoding": "gzip", "encoded_length": len(packed)}
    doc = {"_rev": "1-a", "_revisions": {"start": 1, "ids": ["a"]}, "_attachments": {"t": packed_about}}
    body = related(b"\r\n" + json.dumps(doc).encode(), b"Content-Encoding: gzip\r\n\r\n" + packed)
    written = await node("PUT", f"{store}/doc?new_edits=false", body, headers=RELATED)
    assert written.status == 201
    assert (await node("GET", f"{store}/doc/t")).body == TEXT * 100
    assert (await node("GET", f"{store}/doc")).json["_attachments"]["t"]["length"] == len(TEXT) * 100


@each(
    ("body", "reason"),
    [
        (b"", "does not end"),
        (b"--q--", "no part"),
        (b"--q\r\n--q--", "no empty line"),
        (related(b"\r\nhi"), "first part must be a JSON object"),
        (related(b"\r\n5"), "first part must be a JSON object"),
        (related(FOLLOWING, b"\r\nhi").removesuffix(b"--q--"), "does not end"),
        (related(FOLLOWING), "a does not follow"),
        (related(FOLLOWING, b"\r\nhi", b"\r\nhi"), "more parts"),
        (related(FOLLOWING, b"\r\nhigh"), "has 4 bytes and not 2"),
        (related(FOLLOWING.replace(b'"length"', b'"encoding": "gzip", "length"'), b"\r\nhi"), "decompressed"),
        (related(FOLLOWING, *[b"\r\n"] * 1000), "more than 1000 parts"),
        (related(b'\r\n{"_attachments": {"a": {"follows": 1}}}'), "attachment a must be a stub"),
        (related(b"\r\n" + b"[" * 5000), "nested"),
    ],
)
@each("method", ["PUT", "POST"])
async def test_a_malformed_multipart_body_is_refused(node, store, method, body, reason):
    answer = await node(method, f"{store}/doc", body, headers=RELATED)
    assert answer.status == 400
    assert method == "POST" or reason in answer.json["reason"]
    assert (await node("GET", store)).json["doc_count"] == 0


@pytest.mark.parametrize("new_edits", [b"true", b"false"])
async def test_members_of_a_document_are_its_own(node, store, new_edits):
    inherited = b'{"_rev": "1-a", "__proto__": {"_id": "_design/x"}}'
    docs = b'{"docs": [%s, {"_id": "b", "_rev": "1-a"}], "new_edits": %s}'
    if new_edits == b"true":
        inherited, docs = inherited.replace(b'"_rev": "1-a", ', b""), docs.replace(b', "_rev": "1-a"', b"")
    answer = await node("POST", f"{store}/_bulk_docs", docs % (inherited, new_edits))
    (refused,) = [row for row in answer.json if row.get("error")]
    assert (refused["error"], refused["reason"]) == (
        "doc_validation", "a member of a document must not be called __proto__",
    )  # fmt: skip
    rows = (await node("GET", f"{store}/_all_docs")).json["rows"]
    assert [row["id"] for row in rows] == ["b"]


@each(("method", "id_"), [("PUT", "/doc"), ("PUT", "/_local/doc"), ("POST", "")])
@each("body", [b'{"__proto__": {"a": 1}}', b'{"deep": [{"__proto__": 1}]}'])
async def test_a_single_document_with_a_member_proto_is_refused(node, store, method, id_, body):
    answer = await node(method, store + id_, body, headers=JSON)
    assert (answer.status, answer.json["error"]) == (400, "doc_validation")
    assert (await node("GET", f"{store}/_local/doc")).status == 404
    assert (await node("GET", store)).json["doc_count"] == 0


async def test_the_reserved_part_of_a_path_may_be_encoded(node, store):
    await put(node, f"{store}/%5fdesign/x", {"views": {}})
    await put(node, f"{store}/_%6cocal%2Fy", {})
    assert (await node("GET", f"{store}/_design/x")).json["_id"] == "_design/x"
    assert (await node("GET", f"{store}/_local/y")).status == 200
    assert (await node("GET", f"{store}/%5f%ff")).status == 400
    rows = (await node("GET", f"{store}/%5fall_docs")).json["rows"]
    assert [row["id"] for row in rows] == ["_design/x"]


@each("id_", ["_design", "_design/", "_local", "_designs", "_x"])
async def test_other_ids_do_not_begin_with_an_underscore(node, store, id_):
    assert (await node("PUT", f"{store}/{quote(id_).replace('_', '%5F')}", {})).status >= 400
    assert (await node("POST", store, {"_id": id_})).status == 400
    doc = {"_id": id_, "_rev": "1-a"}
    (refused,) = (await node("POST", f"{store}/_bulk_docs", {"docs": [doc], "new_edits": False})).json
    assert "Only reserved document ids" in refused["reason"]
    assert (await node("GET", store)).json["doc_count"] == 0


async def test_a_request_line_as_long_as_that_of_the_front_door(node, store):
    await put(node, f"{store}/doc", {})
    keys = json.dumps(["doc", "x" * 60_000])
    headers = {f"X-{n}": "x" * 8000 for n in range(8)}
    answer = await node("GET", f"{store}/_all_docs", headers=headers, keys=keys)
    assert (answer.status, answer.json["rows"][0]["id"]) == (200, "doc")


async def test_lists_and_feeds_leave_out_local_documents(node, store):
    await put(node, f"{store}/_local/checkpoint", {"seq": 5})
    assert (await node("GET", f"{store}/_local/checkpoint")).json["seq"] == 5
    assert (await node("GET", f"{store}/_all_docs")).json["rows"] == []
    assert (await node("GET", f"{store}/_changes")).json["results"] == []


async def test_couchdbs_replicator_writes_and_reads_revisions(node, store):
    doc = {"_id": "doc", "_rev": "2-2", "_revisions": {"start": 2, "ids": ["2", "1"]}}
    answer = await node("POST", f"{store}/_bulk_docs", {"docs": [doc], "new_edits": False})
    assert (answer.status, answer.json) == (201, [])
    asked = {"open_revs": ["2-2"], "revs": True, "headers": {"Accept": "application/json"}}
    (leaf,) = (await node("GET", f"{store}/doc", **asked)).json
    assert leaf["ok"] == doc


async def test_couchdbs_replicator_copies_attachments_as_they_come(node, store):
    """It reads a revision as multipart/mixed, and writes the part with its attachments unchanged."""
    odd = {"content_type": 'text/x;a="\r\n\r\n', "data": "eHg="}  # type and name would end a header
    attachments = {'q"\r\nuote': odd, "text": {"content_type": "text/plain", "data": "aGk="}}
    rev = await put(node, f"{store}/doc", {"_attachments": attachments})
    wanted = {"revs": True, "open_revs": [rev, "5-5"], "latest": True}
    answer = await node("GET", f"{store}/doc", headers={"Accept": "multipart/mixed"}, **wanted)
    assert (await node("GET", f"{store}/doc", rev="5-5", latest=True)).status == 404
    got = await node("POST", f"{store}/_bulk_get", {"docs": [{"id": "doc", "rev": "5-5"}]}, latest=True)
    assert got.json["results"][0]["docs"][0]["error"]["error"] == "not_found"
    boundary = answer.headers["Content-Type"].partition("boundary=")[2].strip('"').encode()
    found, missing = sorted((b"\r\n" + answer.body).split(b"\r\n--" + boundary)[1:3], key=len, reverse=True)
    assert b'Content-Type: application/json; error="true"\r\n\r\n{"missing":"5-5"}' in missing
    head, _, content = found.partition(b"\r\n\r\n")
    kind = head.partition(b"Content-Type: ")[2].decode()
    for method in ("DELETE", "PUT"):
        assert (await node(method, store)).status in {200, 201}
    path = f"{store}/doc?new_edits=false"
    assert (await node("PUT", path, content, headers={"Content-Type": kind})).status == 201
    copy = (await node("GET", f"{store}/doc")).json
    assert (copy["_rev"], {*copy["_attachments"]}) == (rev, {*attachments})
    assert (await node("GET", f"{store}/doc/text")).body == b"hi"


async def test_a_body_over_the_limit_is_refused_unread(node, store):
    # on a connection of its own, because it still waits for the rest of the body
    headers = {"Content-Length": str(2**27), "Connection": "close"}
    answer = await node("POST", f"{store}/_bulk_docs", None, headers=headers)
    assert (answer.status, answer.json["error"]) == (413, "too_large")


async def test_the_design_document_of_an_index_is_named_with_or_without_its_prefix(node, store):
    docs = [{"_id": f"d{n}", "n": n, "m": n} for n in range(3)]
    await node("POST", f"{store}/_bulk_docs", {"docs": docs})
    for field, ddoc in (("n", "by_n"), ("m", "_design/by_m")):
        made = await node("POST", f"{store}/_index", {"index": {"fields": [field]}, "ddoc": ddoc})
        assert (made.json["result"], made.json["id"]) == ("created", f"_design/by_{field}")
        found = await node("POST", f"{store}/_find", {"selector": {field: {"$gt": 1}}, "use_index": ddoc})
        assert [doc["_id"] for doc in found.json["docs"]] == ["d2"]


@each("ddoc", ["i", "_design/i", "_design%2Fi"])
async def test_an_index_is_deleted_with_or_without_the_prefix(node, store, ddoc):
    for name in ("one", "two"):
        made = {"index": {"fields": [name]}, "ddoc": "i", "name": name}
        assert (await node("POST", f"{store}/_index", made)).json["result"] == "created"
    assert (await node("DELETE", f"{store}/_index/{ddoc}/json/one")).json == {"ok": True}
    assert [*(await node("GET", f"{store}/_design/i")).json["views"]] == ["two"]
    assert (await node("DELETE", f"{store}/_index/{ddoc}/json/two")).json == {"ok": True}
    assert (await node("GET", f"{store}/_design/i")).status == 404


async def test_an_index_that_is_missing_cannot_be_deleted(node, store):
    await put(node, f"{store}/doc", {"views": {"n": 1}})
    await node("POST", f"{store}/_index", {"index": {"fields": ["n"]}, "ddoc": "i", "name": "n"})
    for path in ("x/json/n", "i/json/x", "i/text/n", "doc/json/n", "_design/x/json/n"):
        answer = await node("DELETE", f"{store}/_index/{path}")
        assert (answer.status, answer.json["error"]) == (404, "not_found")
    assert (await node("GET", f"{store}/doc")).json["views"] == {"n": 1}


async def test_an_index_that_find_would_not_read_is_refused(node, store):
    await put(node, f"{store}/doc", {"n": 1})
    for names in ({"ddoc": "_design/_design/x"}, {"ddoc": "a/b"}, {"name": "a/b"}):
        answer = await node("POST", f"{store}/_index", {"index": {"fields": ["n"]}, **names})
        assert (answer.status, answer.json["error"]) == (400, "bad_request")
        assert "slash" in answer.json["reason"]
    found = await node("POST", f"{store}/_find", {"selector": {"n": 1}})
    assert [doc["_id"] for doc in found.json["docs"]] == ["doc"]


SLOW = [
    "^(?=(a+)+$)",
    "(?!a)",
    "(?<=a)b",
    "(?<!a)b",
    r"(a+)+\1$",
    r"^(?<n>a+)+\k<n>$",
    "^(a+){17}$",
    ["(?=a)"],
    "(",
]


@pytest.fixture
async def long(node, store):
    """A database with a text on which a regular expression may take for ever."""
    await put(node, f"{store}/long", {"text": "a" * 60 + "!"})
    return store


@each("slow", SLOW)
@each("path", ["_find", "_explain", "_changes?filter=_selector", "_replicate"])
async def test_a_regular_expression_without_linear_time_is_refused(node, long, path, slow):
    target = f"/{path}" if path == "_replicate" else f"{long}/{path}"
    ends = {"source": long.strip("/"), "target": "none"} if path == "_replicate" else {}
    selector = {"$or": [{"text": 1}, {"$not": {"text": {"$regex": slow}}}]}
    answer = await node("POST", target, {"selector": selector, **ends})
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert answer.json["reason"].startswith(
        "$regex must be a regular expression of JavaScript without look-around"
    )


@each("pattern", ["^a{16}", r"a+!$", r"[(?=]|\(\?=|a!", "^(?:a|aa)+!"])
async def test_other_regular_expressions_find(node, long, pattern):
    found = await node("POST", f"{long}/_find", {"selector": {"text": {"$regex": pattern}}})
    assert [doc["_id"] for doc in found.json["docs"]] == ["long"]


async def test_a_negated_regular_expression_stands_in_for_look_ahead(node, store):
    for id_ in ("doc", "_design/x"):
        await put(node, f"{store}/{id_}", {})
    selector = {"$not": {"_id": {"$regex": "^_design/"}}}
    found = await node("POST", f"{store}/_find", {"selector": selector})
    assert [doc["_id"] for doc in found.json["docs"]] == ["doc"]
    changes = await node("POST", f"{store}/_changes?filter=_selector", {"selector": selector})
    assert [row["id"] for row in changes.json["results"]] == ["doc"]


VIEWS = {
    "views": {
        "n": {"map": "function (doc) { emit(doc.n, doc.n); }", "reduce": "_stats"},
        "last": {"map": "function (doc) { emit([doc.n % 2, doc.n], doc._id); };", "reduce": "_last"},
        "own": {
            "map": "function (doc) { emit(doc.n % 2, doc.n); }",
            "reduce": "function (keys, values) { return sum(values); }",
        },
        "throws": {"map": "function (doc) { if (doc.n === 1) { throw new Error('no'); } emit(doc.n); }"},
        "broken": {"map": "function ("},
        "unknown": {"map": "function (doc) { emit(1, 1); }", "reduce": "_approx_count_distinct"},
    },
    "lists": {
        "codes": "function (head, req) { start({code: 418, headers: {'X-A': req.query.a}}); return 'tea'; }",
        "breaks": "function () { throw(['error', 'broken', 'on purpose']); }",
        "endless": 7,
    },
    "filters": {"throws": "function () { throw new Error('no'); }", "broken": "function ("},
}


@pytest.fixture
async def numbers(node, store):
    await put(node, f"{store}/_design/d", VIEWS)
    await node("POST", f"{store}/_bulk_docs", {"docs": [{"_id": f"d{n}", "n": n} for n in range(5)]})
    return store


@each(
    ("query", "rows"),
    [
        ("n?reduce=false&limit=2", [{"id": "d0", "key": 0, "value": 0}, {"id": "d1", "key": 1, "value": 1}]),
        ("n", [{"key": None, "value": {"sum": 10, "count": 5, "min": 0, "max": 4, "sumsqr": 30}}]),
        ("last?group_level=1", [{"key": [0], "value": "d4"}, {"key": [1], "value": "d3"}]),
        ("own?group=true&descending=true", [{"key": 1, "value": 4}, {"key": 0, "value": 6}]),
        ('n?reduce=false&start_key=3&end_key="x"', [{"id": f"d{n}", "key": n, "value": n} for n in (3, 4)]),
        ("n?reduce=false&keys=[4,2]", [{"id": f"d{n}", "key": n, "value": n} for n in (4, 2)]),
        ("throws?limit=2", [{"id": "d0", "key": 0, "value": None}, {"id": "d2", "key": 2, "value": None}]),
    ],
)
async def test_views(node, numbers, query, rows):
    view, _, parameters = query.partition("?")
    parameters = quote(parameters, safe="=&")
    assert (await node("GET", f"{numbers}/_design/d/_view/{view}?{parameters}")).json["rows"] == rows


async def test_a_view_has_the_latest_writes_and_can_be_read_by_post(node, numbers):
    view = f"{numbers}/_design/d/_view/n"
    assert (await node("GET", view)).json["rows"][0]["value"]["count"] == 5
    rev = await put(node, f"{numbers}/d5", {"n": 5})
    assert (await node("GET", view)).json["rows"][0]["value"]["count"] == 6
    posted = await node("POST", view, {"keys": [5]}, reduce=False)
    assert [row["id"] for row in posted.json["rows"]] == ["d5"]
    await node("DELETE", f"{numbers}/d5", rev=rev)
    assert (await node("GET", view)).json["rows"][0]["value"]["count"] == 5


async def test_a_list_function_sets_status_and_headers(node, numbers):
    answer = await node("GET", f"{numbers}/_design/d/_list/codes/n", a="1")
    assert (answer.status, answer.headers["X-A"], answer.body) == (418, "1", b"tea")
    assert answer.headers["Content-Length"] == "3"


@each(
    ("path", "status"),
    [
        ("_design/d/_view/none", 404),
        ("_design/none/_view/n", 404),
        ("_design/d/_view/broken", 500),
        ("_design/d/_view/unknown", 400),
        ("_design/d/_view/n?startkey=[", 400),
        ("_design/d/_view/n?limit=-1", 400),
        ("_design/d/_view/n?reduce=maybe", 400),
        ("_design/d/_view/n?keys=5", 400),
        ("_design/d/_list/none/n", 404),
        ("_design/d/_list/endless/n", 404),
        ("_design/d/_list/breaks/n", 500),
        ("_changes?filter=d/none", 404),
        ("_changes?filter=none/none", 404),
        ("_changes?filter=nothing", 400),
        ("_changes?filter=d/throws", 400),
        ("_changes?filter=d/broken", 500),
        ("_changes?filter=_view&view=d/broken", 500),
        ("_changes?filter=_selector", 400),
        ("_changes?filter=_doc_ids", 400),
        ("_changes?feed=sideways", 400),
        ("_changes?since=yesterday", 400),
        ("_changes?heartbeat=0", 400),
        ("_changes?timeout=soon", 400),
        ("d1?open_revs=5", 400),
        ("d1/none", 404),
        ("d1/__proto__", 404),
    ],
)
async def test_errors_have_couchdbs_form(node, numbers, path, status):
    answer = await node("GET", f"{numbers}/{path.replace('[', '%5B')}")
    assert answer.status == status
    assert set(answer.json) >= {"error", "reason"}
    assert answer.headers["Content-Type"] == "application/json"


BAD_BODIES = [
    b"",
    b"not json",
    b"null",
    b"[]",
    b"5",
    b'{"docs": null}',
    b'{"docs": {}}',
    b'{"docs": [null]}',
    b'{"docs": [5, []]}',
    b'{"docs": [{"_id": 5}]}',
    b'{"docs": [{"_unknown": 5}]}',
    b'{"docs": [{"_rev": 5}]}',
    b'{"docs": [{"_attachments": {"a": {"data": "###"}}}]}',
    b'{"docs": [{"_id": "n", "_revisions": 5}], "new_edits": false}',
    b'{"docs": [{"_id": "n", "_attachments": {"a": {"follows": true}}}]}',
    b'{"docs": [{"_id": "n", "_attachments": {"a": null}}]}',
    b'{"docs": [{"_id": "n", "_revisions": {"start": "x", "ids": ["a"]}}], "new_edits": false}',
    b'{"docs": [{"_id": "n", "_revisions": {"start": [], "ids": ["a"]}}], "new_edits": false}',
    b'{"docs": [{"_id": "n", "_revisions": {"start": 3, "ids": ["a-b"]}}], "new_edits": false}',
    b'{"docs": [{"_id": "n", "_rev": "9007199254740993-a"}], "new_edits": false}',
    b'{"docs": [{"_id": "n", "_rev": "0-a"}], "new_edits": false}',
    b'{"docs": [{"_id": "n", "_rev": "1-a-b"}], "new_edits": false}',
    b'{"docs": [{"_id": "n", "_rev": "1-a", "_rev_tree": [{"pos": 1}]}], "new_edits": false}',
    b'{"docs": [{"_id": "_local/n", "error": true, "status": "x"}]}',
    b'{"docs": [{"__proto__": {"_id": "zzz"}}]}',
    b'{"docs": [{"_id": "n", "a": [{"__proto__": {}}]}]}',
    b'{"keys": null}',
    b'{"doc": 5}',
    b'{"doc": [5]}',
    b'{"selector": null}',
    b'{"selector": {"a": {"$no": 1}}}',
    b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
]
TAKE_BODIES = [
    "/_bulk_docs",
    "/_bulk_get",
    "/_revs_diff",
    "/_all_docs",
    "/_changes?filter=_selector",
    "/_find",
    "/_index",
    "/_design/d/_view/n",
    "",
]


async def test_no_malformed_body_ends_the_server_or_answers_500(own_server):
    async with client_of(own_server.url) as node:
        await node("PUT", "/db")
        await put(node, "/db/_design/d", VIEWS)
        await put(node, "/db/n", {})
        for path, body in itertools.product(TAKE_BODIES, BAD_BODIES):
            answer = await node("POST", f"/db{path}", body, headers=JSON)
            assert answer.status < 500, (path, body[:60], answer.body)
            json.loads(answer.body)
        assert (await node("GET", "/db/n", revs="true", open_revs="all")).status == 200
        everything = {"style": "all_docs", "include_docs": "true", "attachments": "true", "conflicts": "true"}
        for path in ("_changes", "_all_docs"):
            assert (await node("GET", f"/db/{path}", **everything)).status == 200
    assert own_server.process.poll() is None
    assert "uncaught error" not in own_server.log.read_text()


@each("path", ["/_utils", "/_config", "/_node/_local", "/_users", "/db/_temp_view", "/favicon.ico"])
async def test_endpoints_of_express_pouchdb_are_switched_off(node, path):
    assert (await node("GET", path)).status == 404
    assert (await node("PUT", path, {})).status in {400, 404}


async def test_an_endless_validation_function_is_ended(tmp_path):
    endless = {"validate_doc_update": "function (doc) { while (doc.endless) {} }"}
    with embedded_server(tmp_path, "--function-ms", "500") as server:
        async with client_of(server.url) as node:
            await node("PUT", "/db")
            await put(node, "/db/_design/d", endless)
            answer = await node("PUT", "/db/doc", {"endless": True})
            assert answer.status == 500
            assert "after 500ms" in answer.json["reason"]
            await put(node, "/db/doc", {"endless": False})


async def test_a_new_validation_function_takes_effect_at_once(node, store):
    rev_of_a = await put(node, f"{store}/a", {})
    refuse = "function (doc, old) { throw(old ? {forbidden: 'once only'} : {unauthorized: 'no'}); }"
    rev = await put(node, f"{store}/_design/d", {"validate_doc_update": refuse})
    answer = await node("PUT", f"{store}/a", {"_rev": rev_of_a})
    assert (answer.status, answer.json) == (403, {"error": "forbidden", "reason": "once only"})
    assert (await node("PUT", f"{store}/b", {})).status == 401
    assert (await node("DELETE", f"{store}/_design/d", rev=rev)).status == 200
    await put(node, f"{store}/b", {})


async def test_the_error_for_a_rewrite_names_the_page(node, store):
    for path in ("_rewrite", "_rewrite/", "_rewrite/style.css"):
        answer = await node("GET", f"{store}/_design/app/{path}")
        assert (answer.status, answer.json["error"]) == (501, "not_implemented")
        assert f"{store}/_design/app/index.html" in answer.json["reason"]


async def test_options_of_the_server_as_a_whole(embedded):
    async with raw_client(urlsplit(embedded).port or 80) as client:
        await client.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await client.answer()
    assert answer.status == 204
    assert b"COPY" in (answer.value(b"Allow") or b"")
