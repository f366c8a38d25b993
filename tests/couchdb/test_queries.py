"""Lists, views and bulk reads: embedded server and CouchDB answer the same."""

import asyncio
import shutil
import subprocess
from base64 import b64decode, b64encode
from urllib.parse import quote

import pytest

from support.database import EMBEDDED_SERVER
from support.rows import each

DESIGN = {
    "views": {
        "sums": {"map": "function (doc) { emit(doc.n, doc.n); }", "reduce": "_sum"},
        "plain": {"map": "function (doc) { emit(doc.n, null); }"},
    }
}
DOCS = [{"_id": name, "_rev": "1-aa", "n": n} for n, name in enumerate("abc")]
ALL = "_all_docs"
SUMS = "_design/d/_view/sums"
PLAIN = "_design/d/_view/plain"


@pytest.fixture
async def filled(couch, database):
    assert (await couch("PUT", f"{database}/_design/d", DESIGN)).status == 201
    assert (await couch("PUT", f"{database}/_design/e", {})).status == 201
    body = {"docs": DOCS, "new_edits": False}
    assert (await couch("POST", f"{database}/_bulk_docs", body)).status == 201
    return database


@pytest.fixture
async def designed(node, store):
    assert (await node("PUT", f"{store}/_design/d", DESIGN)).status == 201
    return store


@pytest.fixture
async def same_key(couch, database):
    assert (await couch("PUT", f"{database}/_design/d", DESIGN)).status == 201
    await couch("POST", f"{database}/_bulk_docs", {"docs": SAME_KEY})
    return database


def ids(rows):
    return [row["id"] if "id" in row else row["error"] for row in rows]


REFUSED = [
    f"{ALL}?startkey=bad",
    f"{ALL}?key=",
    f"{ALL}?keys=5",
    f'{ALL}?keys=["a","b"]&key="a"',
    f"{ALL}?limit=x",
    f"{ALL}?limit=-1",
    f"{ALL}?limit=1.5",
    f"{ALL}?limit=",
    f"{ALL}?skip=-1",
    f"{ALL}?include_docs=maybe",
    f"{ALL}?descending=1",
    f"{ALL}?group=true",
    f"{ALL}?reduce=true",
    "_design_docs?limit=x",
    f"{SUMS}?stale=bad",
    f"{SUMS}?update=bad",
    f"{SUMS}?group=true&reduce=false",
    f"{SUMS}?group_level=1&reduce=false",
    f"{SUMS}?include_docs=true",
    f"{PLAIN}?group=true",
    f"{PLAIN}?group_level=2",
    f"{PLAIN}?reduce=true",
]


@each("path", REFUSED)
async def test_an_invalid_query_is_refused(couch, filled, path):
    answer = await couch("GET", f"{filled}/{quote(path, safe='?&=/')}")
    assert answer.status == 400
    assert answer.json["error"] in {"query_parse_error", "bad_request"}


@each("path", [ALL, SUMS])
@each(
    "body",
    [{"limit": "x"}, {"limit": -1}, {"limit": "2"}, {"limit": None}, {"descending": "yes"}, {"keys": 5}],
)
async def test_a_query_in_a_body_is_checked_too(couch, filled, path, body):
    assert (await couch("POST", f"{filled}/{path}", body)).status == 400
    several = await couch("POST", f"{filled}/{path}/queries", {"queries": [{}, body]})
    assert several.status == 400


@each(
    ("path", "expected"),
    [
        (f"{ALL}?limit=2&skip=1", ["_design/e", "a"]),
        (f'{ALL}?startkey="b"', ["b", "c"]),
        (f'{ALL}?start_key="c"&end_key="b"&descending=True', ["c", "b"]),
        (f'{ALL}?keys=["c","none"]', ["c", "not_found"]),
        (f'{ALL}?keys=["a","b","c"]&skip=1&limit=1', ["b"]),
        ("_design_docs", ["_design/d", "_design/e"]),
        ("_design_docs?descending=true&limit=1", ["_design/e"]),
        ('_design_docs?startkey="_design/dd"', ["_design/e"]),
        ('_design_docs?endkey="_design/e"&inclusive_end=false', ["_design/d"]),
        ('_design_docs?key="_design/d"', ["_design/d"]),
        ('_design_docs?key="a"', []),
        ('_design_docs?keys=["_design/e","_design/none","a"]', ["_design/e", "not_found"]),
        (f"{SUMS}?reduce=false&limit=1&update=true&stable=true", ["a"]),
        (f"{PLAIN}?group=false&group_level=0&reduce=false&limit=1", ["a"]),
    ],
)
async def test_rows(couch, filled, path, expected):
    answer = await couch("GET", f"{filled}/{quote(path, safe='?&=/')}")
    assert ids(answer.json["rows"]) == expected


async def test_design_documents_with_their_content(couch, filled):
    answer = (await couch("GET", f"{filled}/_design_docs", include_docs=True)).json
    assert answer["total_rows"] == 2
    assert answer["rows"][0]["doc"]["views"] == DESIGN["views"]


@each(
    ("path", "queries", "expected"),
    [
        (ALL, [{"keys": ["a", "none"]}, {"limit": 1, "skip": 2}], [["a", "not_found"], ["a"]]),
        ("_design_docs", [{"limit": 1}], [["_design/d"]]),
        (f"{SUMS}/queries?reduce=false", [{"key": 1}, {"limit": 1}], [["b"], ["a"]]),
        (ALL, [], []),
    ],
)
async def test_several_queries_in_one_request(couch, filled, path, queries, expected):
    address = path if "?" in path else f"{path}/queries"
    answer = await couch("POST", f"{filled}/{address}", {"queries": queries})
    assert [ids(result["rows"]) for result in answer.json["results"]] == expected


@each("body", [{}, {"queries": 5}, {"queries": [{"limit": 1}, *[{"limit": -1}] * 9]}])
async def test_malformed_queries_are_refused(couch, filled, body):
    for path in (ALL, SUMS):
        assert (await couch("POST", f"{filled}/{path}/queries", body)).status == 400


@each(("number", "rows", "status"), [(1_000, 1, 200), (1_001, 1, 400), (600, 200, 400)])
async def test_several_queries_are_bounded_in_number_and_rows(node, store, number, rows, status):
    """Of the embedded server, whose memory they would fill."""
    docs = [{"_id": f"{n:03}"} for n in range(200)]
    assert (await node("POST", f"{store}/_bulk_docs", {"docs": docs})).status == 201
    body = {"queries": [{"limit": rows}] * number}
    assert (await node("POST", f"{store}/{ALL}/queries", body)).status == status


SVC = "_design/d"
AMOUNTS = {
    ALL: lambda n: {"keys": [SVC] * n},
    "_design_docs": lambda n: {"keys": [SVC] * n},
    SUMS: lambda n: {"keys": [1] * n, "group": True},
    "_design/d/_list/rows/sums": lambda n: {"keys": [1] * n, "reduce": False},
    f"{ALL}/queries": lambda n: {
        "queries": [{"keys": [SVC] * (n // 5)}] * 4 + [{"keys": [SVC] * (n - n // 5 * 4)}]
    },
    "_bulk_get": lambda n: {"docs": [{"id": SVC}] * n},
    "_find": lambda n: {"selector": {"_id": {"$in": [SVC] * (n - 3)}}},
    "_changes?filter=_selector": lambda n: {"selector": {"_id": {"$in": [SVC] * (n - 3)}}},
}


async def test_an_amount_that_would_hold_up_the_server_is_refused(node, store):
    design = DESIGN | {"lists": {"rows": "function () { while (getRow()) send('x'); }"}}
    assert (await node("PUT", f"{store}/{SVC}", design)).status == 201
    for path, amount in AMOUNTS.items():
        assert (await node("POST", f"{store}/{path}", amount(10_000))).status == 200, path
        answer = await node("POST", f"{store}/{path}", amount(10_001))
        assert (answer.status, answer.json["error"]) == (413, "too_large"), path
    revisions = {f"d{n}": ["1-a"] for n in range(20_000)}  # which is not slow
    assert (await node("POST", f"{store}/_revs_diff", revisions)).status == 200


GONE = """
const { queryHandlers } = await import(process.argv[1]);
const socket = { destroyed: false };
let runs = 0;
const run = async () => {
  runs += 1;
  socket.destroyed ||= runs === 10;
  return { rows: [] };
};
const req = { body: { queries: Array(1000).fill({}) }, originalUrl: "/", socket };
await queryHandlers(run).many(req, { req, writeHead() {}, end() {} });
console.log(runs);
"""


def test_several_queries_end_when_their_client_is_gone():
    assert int(of_program(GONE, "queries.mjs")) == 10


TURNS = """
import { EventEmitter } from "node:events";
import { mock } from "node:test";
mock.timers.enable({ apis: ["setTimeout"] });
const { inTurn } = await import(process.argv[1]);
const [begun, turn] = [[], inTurn()];
const ask = (name, header) => {
  const res = Object.assign(new EventEmitter(), { end() {} });
  turn({ get: () => header }, res, (error) => begun.push(error === undefined ? name : error.status));
  return res;
};
const [one, two] = [..."abcd"].map((name) => ask(name, "192.0.2.1"));
const [gone] = [..."efgh"].map((name) => ask(name, "192.0.2.1"));
ask("own");
gone.emit("close");
one.end();
one.emit("close");
two.emit("close");
mock.timers.tick(60_000);
console.log(begun.join(" "));
"""


def of_program(program, module):
    """What a program prints that gets the address of a module of the embedded server."""
    arguments = ["--input-type=module", "-e", program, str(EMBEDDED_SERVER.with_name(module))]
    return subprocess.run(
        [shutil.which("node"), *arguments], stdout=subprocess.PIPE, check=True, text=True
    ).stdout


def test_large_queries_of_clients_wait_for_their_turn():
    """e has gone, f and g follow when a and b end, and h waits too long."""
    assert of_program(TURNS, "turns.mjs").split() == [*"abcd", "own", "f", "g", "503"]


@each(("method", "path"), [("GET", ALL), ("GET", SUMS), ("POST", "_find"), ("POST", f"{ALL}/queries")])
async def test_many_queries_at_once_are_all_answered(node, designed, method, path):
    body = {"selector": {}, "queries": [{}]} if method == "POST" else None
    through = {"X-Forwarded-For": "192.0.2.1"}
    asked = [node(method, f"{designed}/{path}", body, headers=through) for _ in range(12)]
    assert {answer.status for answer in await asyncio.gather(*asked)} == {200}


async def test_a_view_in_several_queries_is_reduced(couch, filled):
    answer = await couch("POST", f"{filled}/{SUMS}/queries", {"queries": [{}, {"group": True, "limit": 1}]})
    assert [result["rows"] for result in answer.json["results"]] == [
        [{"key": None, "value": 3}],
        [{"key": 0, "value": 0}],
    ]


async def test_bulk_get_has_a_result_for_each_request(couch, filled):
    asked = [{"id": "a"}, {"id": "none"}, {"id": "a", "rev": "9-aaaa"}, {"id": "a", "rev": "junk"}]
    answer = await couch("POST", f"{filled}/_bulk_get", {"docs": [*asked, {"id": "a", "rev": "1-aa"}]})
    missing = {"error": "not_found", "reason": "missing"}
    junk = {"error": "bad_request", "reason": "Invalid rev format"}
    document = {"ok": DOCS[0]}
    assert answer.json["results"] == [
        {"id": "a", "docs": [document]},
        {"id": "none", "docs": [{"error": {"id": "none", "rev": "undefined"} | missing}]},
        {"id": "a", "docs": [{"error": {"id": "a", "rev": "9-aaaa"} | missing}]},
        {"id": "a", "docs": [{"error": {"id": "a", "rev": "junk"} | junk}]},
        {"id": "a", "docs": [document]},
    ]
    assert (await couch("POST", f"{filled}/_bulk_get", {"docs": []})).json == {"results": []}


async def test_bulk_get_without_a_revision_gives_all_leaves(couch, filled):
    other = {"_id": "a", "_rev": "1-bb", "n": 9, "_deleted": True}
    await couch("POST", f"{filled}/_bulk_docs", {"docs": [other], "new_edits": False})
    answer = await couch("POST", f"{filled}/_bulk_get", {"docs": [{"id": "a"}]}, revs=True)
    leaves = [leaf["ok"] for leaf in answer.json["results"][0]["docs"]]
    assert sorted(leaf["_rev"] for leaf in leaves) == ["1-aa", "1-bb"]
    assert all(leaf["_revisions"]["start"] == 1 for leaf in leaves)


async def test_missing_revisions(couch, filled):
    asked = {"a": ["1-aa", "2-bb"], "b": ["1-aa"], "none": ["1-cc"]}
    missing = {"a": ["2-bb"], "none": ["1-cc"]}
    assert (await couch("POST", f"{filled}/_missing_revs", asked)).json == {"missing_revs": missing}
    diff = (await couch("POST", f"{filled}/_revs_diff", asked)).json
    assert {name: entry["missing"] for name, entry in diff.items()} == missing
    for path in ("_missing_revs", "_revs_diff"):
        assert (await couch("POST", f"{filled}/{path}", {"a": ["junk"]})).status == 400
        assert (await couch("POST", f"{filled}/{path}", [])).status == 400


@each(
    ("method", "path"),
    [
        ("GET", f"{ALL}/queries"),
        ("PUT", ALL),
        ("DELETE", ALL),
        ("GET", "_bulk_docs"),
        ("GET", "_bulk_get"),
        ("GET", "_find"),
        ("GET", "_missing_revs"),
        ("GET", f"{SUMS}/queries"),
        ("PATCH", "a"),
    ],
)
async def test_an_unknown_method_answers_405(couch, filled, method, path):
    answer = await couch(method, f"{filled}/{path}", {} if method == "PUT" else None)
    assert (answer.status, answer.json["error"]) == (405, "method_not_allowed")
    assert method not in answer.headers["Allow"]
    assert ids((await couch("GET", f"{filled}/{ALL}")).json["rows"])[2:] == ["a", "b", "c"]


async def test_settings_can_be_read(couch, database):
    assert (await couch("GET", f"{database}/_revs_limit")).json == 1000
    assert isinstance((await couch("GET", f"{database}/_security")).json, dict)


@each(
    ("method", "path"),
    [
        ("PUT", "_revs_limit"),
        ("PUT", "_security"),
        ("GET", "_local_docs"),
        ("POST", "_local_docs/queries"),
        ("POST", "_purge"),
        ("GET", "_purged_infos"),
        ("GET", "_partition/p/_all_docs"),
        ("POST", "_compact/d"),
        ("GET", "_design/d/_info"),
        ("GET", "_design/d/_show/f/a"),
        ("GET", f"{ALL}?startkey_docid=a"),
        ("GET", f"{SUMS}?startkey=1&startkey_docid=a"),
        ("GET", f"{SUMS}?startkey=1&endkey_docid=a"),
    ],
)
async def test_the_embedded_server_names_what_it_does_not_have(node, designed, method, path):
    answer = await node(method, f"{designed}/{path}", None if method == "GET" else {})
    assert (answer.status, answer.json["error"]) == (501, "not_implemented")
    assert "the embedded server" in answer.json["reason"]


SAME_KEY = [{"_id": name, "n": n} for name, n in (("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 3))]


@each(
    ("query", "found"),
    [
        ("startkey=2&startkey_docid=c", ["c", "d", "e"]),
        ("startkey=2&start_key_doc_id=c", ["c", "d", "e"]),
        ("startkey=2&startkey_docid=bb", ["c", "d", "e"]),
        ("startkey=2&startkey_docid=c&skip=1&limit=1", ["d"]),
        ("startkey=2&startkey_docid=c&descending=true", ["c", "b", "a"]),
        ("startkey=2&startkey_docid=cc&descending=true&endkey=2", ["c", "b"]),
        ("startkey=1.5&startkey_docid=z", ["b", "c", "d", "e"]),  # only matters for equal keys
        ("startkey_docid=c", ["a", "b", "c", "d", "e"]),
    ],
)
@each("view", [PLAIN, f"{SUMS}?reduce=false"])
async def test_a_view_starts_at_a_document_id(couch, same_key, view, query, found):
    answer = await couch("GET", f"{same_key}/{view}{'&' if '?' in view else '?'}{query}")
    assert ids(answer.json["rows"]) == found


ROUNDED = (1795440019.7530863, 1795440060.4938266, 1795440008.6419752, 1795440041.9753082)
"""PouchDB's index rounds these keys: in answers the first two are too small, the others too large."""


@pytest.mark.parametrize("descending", ["false", "true"])
async def test_a_view_starts_at_each_of_its_rows(couch, database, descending):
    docs = [{"_id": f"{n:.0f}-{letter}", "n": n} for n in ROUNDED for letter in "abc"]
    await couch("PUT", f"{database}/_design/d", DESIGN)
    await couch("POST", f"{database}/_bulk_docs", {"docs": docs})
    rows = (await couch("GET", f"{database}/{PLAIN}?descending={descending}")).json["rows"]
    assert len(rows) == len(docs)
    for place, row in enumerate(rows):
        query = f"startkey={row['key']!r}&startkey_docid={row['id']}&descending={descending}"
        answer = await couch("GET", f"{database}/{PLAIN}?{query}")
        assert ids(answer.json["rows"]) == ids(rows[place:])


NAMES = ("air", "water", "light")
SERIES = {"views": {"series": {"map": "function (doc) { emit([doc.series, doc.n], doc.value); }"}}}


@pytest.mark.parametrize("descending", [False, True])
async def test_rows_are_right_after_each_write(couch, database, descending):
    """The embedded server reads rows and documents ahead."""

    async def answers():
        query = {"descending": descending, "include_docs": True}
        key = {"startkey": ["air"], "endkey": ["air", {}]}
        if descending:
            key = {"startkey": key["endkey"], "endkey": key["startkey"]}
        body = {"queries": [query | key, {"reduce": False} | query | key]}
        results = (await couch("POST", f"{database}/_design/d/_view/series/queries", body)).json["results"]
        everything = (await couch("POST", f"{database}/{ALL}", {"include_docs": True})).json["rows"]
        rows = [[(row["id"], row["value"], row["doc"]["value"]) for row in each["rows"]] for each in results]
        return [*rows, [(row["id"], row["doc"].get("value"), row["doc"].get("value")) for row in everything]]

    await couch("PUT", f"{database}/_design/d", SERIES)
    docs = [
        {"_id": f"{n:03}-{name}", "series": name, "n": n, "value": n} for n in range(40) for name in NAMES
    ]
    stored = (await couch("POST", f"{database}/_bulk_docs", {"docs": docs})).json
    by_id = {doc["_id"]: doc | {"_rev": one["rev"]} for doc, one in zip(docs, stored, strict=True)}
    for n in range(30):
        expected = [(key, doc["value"], doc["value"]) for key, doc in sorted(by_id.items())]
        air = [one for one in expected if one[0].endswith("air")]
        air = air[::-1] if descending else air
        assert await answers() == [air, air, [*expected, ("_design/d", None, None)]]
        changed = by_id[f"{n + 3:03}-air"] | {"value": -n}
        changed |= {"_deleted": True} if n % 7 == 0 else {}
        answer = await couch("PUT", f"{database}/{changed['_id']}", changed)
        by_id[changed["_id"]] = changed | {"_rev": answer.json["rev"]}
        if n % 7 == 0:
            del by_id[changed["_id"]]


@pytest.mark.parametrize("descending", ["false", "true"])
async def test_attachments_are_whole_after_documents_were_read(couch, database, descending):
    contents = {f"{n}": bytes([n, 255 - n, 128]) for n in range(12)}
    docs = [
        {"_id": key, "_attachments": {"a": {"content_type": "image/png", "data": b64encode(one).decode()}}}
        for key, one in contents.items()
    ]
    assert (await couch("POST", f"{database}/_bulk_docs", {"docs": docs})).status == 201
    listed = f"{database}/{ALL}?include_docs=true&descending={descending}"
    for key, content in contents.items():
        assert len((await couch("GET", listed)).json["rows"]) == len(contents)
        assert (await couch("GET", f"{database}/{key}/a")).body == content
        with_data = await couch("GET", f"{listed}&attachments=true")
        rows = {
            row["id"]: b64decode(row["doc"]["_attachments"]["a"]["data"]) for row in with_data.json["rows"]
        }
        assert rows == contents
