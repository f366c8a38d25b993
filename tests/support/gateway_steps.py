"""Requests that show what a door to the database may get wrong."""

import os

from support.gateway_doors import Step

# of each worker of xdist its own: they may run against one server
DB = f"/growd_gateway_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
SLASHED = f"{DB}%2Fdoor%2B($)"  # a slash in the name: `%2F` has to stay
PNG = bytes(range(256)) * 40
TEXT = b"a text that compresses well\n" * 200

CREATE = Step("PUT", f"{DB}?q=1")  # one shard: CouchDB's answers come in one order
DELETE = Step("DELETE", DB)

VIEWS = {
    "_id": "_design/door",
    "views": {"by_kind": {"map": "function (doc) { emit([doc.kind, doc._id], doc.n); }", "reduce": "_count"}},
}

DOCUMENTS = [
    Step("GET", "/growd_gateway_missing"),
    Step("PUT", DB),
    Step("HEAD", DB),
    Step("PUT", f"{DB}/doc", {"kind": "a", "n": 1}),
    Step("PUT", f"{DB}/doc", {"kind": "a", "n": 2}),
    Step("GET", f"{DB}/doc"),
    Step("HEAD", f"{DB}/doc"),
    Step("GET", f"{DB}/doc?"),
    Step("GET", f"{DB}/doc?&revs=true"),
    Step("GET", f"{DB}/missing"),
    Step("PUT", f"{DB}/chunked", {"kind": "b", "n": 2}, chunked=True),
    Step("PUT", f"{DB}/bad", b'{"kind": '),
    Step("PUT", f"{DB}/a+b", {"kind": "plus"}),
    Step("PUT", f"{DB}/a%2Bb", {"kind": "encoded plus"}),
    Step("PUT", f"{DB}/a%20b", {"kind": "space"}),
    Step("PUT", f"{DB}/a%2Fb", {"kind": "slash"}),
    Step("PUT", f"{DB}/%C3%A4", {"kind": "umlaut"}),
    Step("GET", f"{DB}/a+b"),
    Step("GET", f"{DB}/a%2Fb"),
    Step("COPY", f"{DB}/doc", headers=("Destination: copied",)),
    Step("GET", f"{DB}/copied"),
    Step("DELETE", f"{DB}/doc?rev=1-0"),
    Step("PATCH", f"{DB}/doc", {}),
    Step("POST", DB, {"_id": "posted", "kind": "a", "n": 3}),
    Step("POST", f"{DB}/_bulk_docs", {"docs": [{"_id": f"bulk{n}", "kind": "c", "n": n} for n in range(9)]}),
    Step("POST", f"{DB}/_bulk_docs", {"docs": [{"_id": "bulk0"}, {"_id": "bulk9"}]}, chunked=True),
]

SLASHED_NAME = [
    Step("DELETE", SLASHED),
    Step("GET", SLASHED),
    Step("PUT", SLASHED),
    Step("PUT", f"{SLASHED}/doc%2Fa", {"n": 1}),
    Step("GET", f"{SLASHED}/doc%2Fa"),
    Step("GET", f"{SLASHED}/doc%2fa"),
    Step("GET", f"{SLASHED}/_all_docs"),
    Step("GET", f"{DB}/door%2B($)/doc%2Fa"),
    Step("GET", SLASHED.replace("%2B", "+")),
    Step("DELETE", SLASHED),
]

READING = [
    Step("PUT", f"{DB}/_design/door", VIEWS),
    *(Step("PUT", f"{DB}/{key}", {"kind": key[0], "n": n}) for n, key in enumerate(["a1", "a2", "b1", "c1"])),
    Step("GET", f"{DB}/_all_docs"),
    Step("GET", f"{DB}/_all_docs?&limit=2"),
    Step("GET", f'{DB}/_all_docs?startkey="a"&endkey="b{{|^`\\\\~"&include_docs=true'),
    Step("GET", f"{DB}/_all_docs?startkey=%22a1%22&endkey=%22a2%22"),
    Step("POST", f"{DB}/_all_docs", {"keys": ["a1", "none"]}),
    Step(
        "GET",
        f'{DB}/_design/door/_view/by_kind?startkey=["a",{{}}]&endkey=["a"]&descending=true&reduce=false',
    ),
    Step("GET", f"{DB}/_design/door/_view/by_kind?group_level=1"),
    Step("GET", f"{DB}/_design/door/_view/missing"),
    Step("GET", f"{DB}/_changes"),
    Step("GET", f"{DB}/_changes?since=0&limit=1&include_docs=true"),
    Step("GET", f"{DB}/_changes?feed=longpoll&since=0"),
    Step("POST", f"{DB}/_changes?filter=_doc_ids", {"doc_ids": ["a1"]}),
    Step("POST", f"{DB}/_revs_diff", {"a1": ["1-x", "2-y"]}),
    Step("POST", f"{DB}/_bulk_get", {"docs": [{"id": "a1"}]}, headers=("Accept: application/json",)),
    Step("POST", f"{DB}/_find", {"selector": {"kind": "a"}}),
    Step("GET", f"{DB}/_local/none"),
]

ATTACHMENTS = [
    Step("PUT", f"{DB}/doc/image.png", PNG, headers=("Content-Type: image/png",)),
    Step("GET", f"{DB}/doc/image.png"),
    Step("HEAD", f"{DB}/doc/image.png"),
    Step("GET", f"{DB}/doc/image.png", headers=("Range: bytes=10-19",)),
    Step("GET", f"{DB}/doc/image.png", headers=("Range: bytes=-5",)),
    Step("GET", f"{DB}/doc/image.png", headers=("Range: bytes=99999-",)),
    Step("PUT", f"{DB}/other/folder/notes.txt", TEXT, headers=("Content-Type: text/plain",), chunked=True),
    Step("GET", f"{DB}/other/folder/notes.txt"),
    Step("GET", f"{DB}/other/folder/notes.txt", headers=("Accept-Encoding: gzip",)),
    Step("GET", f"{DB}/other/folder/missing.txt"),
    Step("GET", f"{DB}/other?attachments=true", headers=("Accept: application/json",)),
    Step("DELETE", f"{DB}/other/folder/notes.txt?rev=0-0"),
]

SERVER = [
    Step("GET", "/"),
    Step("HEAD", "/"),
    Step("GET", "/_up"),
    Step("GET", "/_session"),
    Step(
        "POST",
        "/_session",
        b"name=nobody&password=x",
        headers=("Content-Type: application/x-www-form-urlencoded",),
    ),
    Step("GET", "/_no_such_thing"),
    Step("OPTIONS", "/"),
    Step("GET", "//"),
    Step("GET", "/./_up"),
    Step("GET", "/growd_gateway_missing/../_up"),
    Step("GET", "/_up?%"),
    Step("GET", "/_utils"),
]
