"""`_replicator` and `_scheduler` of the embedded server and of CouchDB alike; some of the first alone."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from support.couch_client import Client, client_of
from support.database import DatabaseServer, start_node
from support.ports import held_port
from support.stand_in import StandIn
from support.tls_door import CA_FILE, door_to, tls_door_to

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from support.database import EmbeddedProcess

DOCS = "/_scheduler/docs/_replicator"
JOBS = "/_scheduler/jobs"
SETTINGS = "/_node/_local/_config/replicator"
VERIFY, CA_SETTING = f"{SETTINGS}/verify_ssl_certificates", f"{SETTINGS}/ssl_trusted_certificates_file"
PASSWORD = "hidden-word"
# CouchDB begins a job up to 5 s after its document was written. Where that fails on a busy machine it does so
# again when its penalty of half a minute is over and it next looks at its jobs, each minute: `interval` in
# docs.couchdb.org/en/stable/config/replicator.html
PATIENCE_S = 150
pytestmark = pytest.mark.timeout(180)


@dataclass
class Replications:
    """Documents of `_replicator`, which are gone after the test."""

    couch: Client
    server: DatabaseServer

    def __post_init__(self) -> None:
        self._ids: list[str] = []
        self._databases: list[str] = []

    def end(self, path: str, *, url: str | None = None) -> dict[str, Any]:
        """A database of the server as source or target."""
        name, password = self.server.auth or ("anybody", PASSWORD)
        basic = {"username": name, "password": password}
        return {"url": (url or self.server.url) + path, "auth": {"basic": basic}}

    def copy(self) -> str:
        """The path of a database that is not there yet."""
        self._databases.append(f"/copy-{uuid4().hex}")
        return self._databases[-1]

    async def begin(self, source: Any, target: Any, **more: Any) -> str:
        """The id of a new document."""
        name = f"test-{uuid4().hex}"
        ends = [end if isinstance(end, dict) else self.end(end) for end in (source, target)]
        answer = await self.couch("PUT", f"/_replicator/{name}", document(*ends, **more))
        assert answer.status == 201, answer.body
        self._ids.append(name)
        return name

    async def change(self, name: str, **more: Any) -> None:
        doc = (await self.couch("GET", f"/_replicator/{name}")).json
        assert (await self.couch("PUT", f"/_replicator/{name}", doc | more)).status == 201

    async def end_all(self) -> None:
        for name in self._ids:
            await delete(self.couch, name)
        for path in self._databases:
            await self.couch("DELETE", path)


@pytest.fixture
async def replications(couch: Client, database_server: DatabaseServer) -> AsyncIterator[Replications]:
    made = Replications(couch, database_server)
    yield made
    await made.end_all()


@pytest.fixture
async def near(node: Client, embedded: str) -> AsyncIterator[Replications]:
    """Those of the embedded server, whatever the others are of."""
    made = Replications(node, DatabaseServer(embedded, None, is_embedded=True))
    yield made
    await made.end_all()


@pytest.fixture
async def numbers(couch: Client, database: str) -> str:
    """The path of a database of four documents: 0 to 3."""
    docs = [{"_id": f"d{n}", "n": n} for n in range(4)]
    assert (await couch("POST", f"{database}/_bulk_docs", {"docs": docs})).status == 201
    return database


def document(source: Any, target: Any, **more: Any) -> dict[str, Any]:
    return {"source": source, "target": target, "create_target": True, **more}


async def delete(couch: Client, name: str) -> None:
    while (present := await couch("GET", f"/_replicator/{name}")).status == 200:
        await couch("DELETE", f"/_replicator/{name}", rev=present.json["_rev"])


async def report(couch: Client, name: str, fits: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """What the scheduler says of a document as soon as that fits."""
    said: Any = None

    async def is_so() -> bool:
        nonlocal said
        said = (await couch("GET", f"{DOCS}/{name}")).json
        return bool(fits(said))

    try:
        await until(is_so)
    except TimeoutError:
        raise AssertionError(f"what was waited for did not come, but {said}") from None
    return dict(said)


def written(said: dict[str, Any]) -> int | None:
    """How many documents a job has written, as soon as it has begun."""
    return (said.get("info") or {}).get("docs_written")


def is_crashing(said: dict[str, Any]) -> bool:
    return said.get("state") == "crashing"


def pending(said: dict[str, Any]) -> int | None:
    """How many changes wait, as soon as they are counted."""
    return (said.get("info") or {}).get("changes_pending")


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await is_so():  # noqa: ASYNC110  the scheduler has no feed
            await asyncio.sleep(0.05)


async def has_status(couch: Client, path: str, status: int) -> bool:
    return (await couch("GET", path)).status == status


async def state_of(couch: Client, name: str, state: str) -> dict[str, Any]:
    return await report(couch, name, lambda said: said.get("state") == state)


async def until_there(couch: Client, database: str, name: str) -> None:
    await until(lambda: has_status(couch, database, 200))
    async with couch.open("GET", f"{database}/_changes", feed="continuous", heartbeat=True) as response:
        async for line in response.content:
            if line.strip() and json.loads(line).get("id") == name:
                return


async def ids(couch: Client, database: str) -> list[str]:
    return [row["id"] for row in (await couch("GET", f"{database}/_all_docs")).json["rows"]]


async def test_the_database_is_there(couch: Client) -> None:
    assert "_replicator" in (await couch("GET", "/_all_dbs")).json
    assert (await couch("GET", "/_replicator")).json["db_name"] == "_replicator"
    assert (await couch("PUT", "/_replicator")).status == 412


async def test_a_continuous_one_brings_what_is_written_later(
    couch: Client, numbers: str, replications: Replications
) -> None:
    copy = replications.copy()
    name = await replications.begin(numbers, copy, continuous=True)
    await until_there(couch, copy, "d3")
    assert (await couch("PUT", f"{numbers}/later", {})).status == 201
    await until_there(couch, copy, "later")
    is_through = {0} if replications.server.is_embedded else {0, None}  # CouchDB asks each 30 s
    said = await report(
        couch,
        name,
        lambda said: written(said) == 5 and said["info"]["changes_pending"] in is_through,
    )
    assert (said["database"], said["doc_id"], said["state"], said["error_count"]) == (
        "_replicator",
        name,
        "running",
        0,
    )
    assert said["source"] == f"{replications.server.url}{numbers}/"
    assert said["target"] == f"{replications.server.url}{copy}/"
    assert {"node", "last_updated", "start_time"} <= set(said)
    info = said["info"]
    checked = [info[key] for key in ("revisions_checked", "missing_revisions_found", "docs_read")]
    assert checked == [5, 5, 5]
    assert info["doc_write_failures"] == 0
    assert {"checkpointed_source_seq", "source_seq", "through_seq"} <= set(info)


async def test_one_whose_target_has_it_all_already_says_so(
    couch: Client, numbers: str, replications: Replications
) -> None:
    """Its checkpoint too, as after an end between the checkpoints of target and source."""
    docs = [
        row["doc"] for row in (await couch("GET", f"{numbers}/_all_docs", include_docs=True)).json["rows"]
    ]
    copy = replications.copy()
    first = await replications.begin(numbers, copy, continuous=True)
    await report(couch, first, lambda said: written(said) == 4 and said["info"]["changes_pending"] == 0)
    await delete(couch, first)
    assert (await couch("DELETE", numbers)).status == 200
    assert (await couch("PUT", numbers)).status == 201
    await couch("POST", f"{numbers}/_bulk_docs", {"docs": docs, "new_edits": False})
    second = await replications.begin(numbers, copy, continuous=True)
    said = await report(couch, second, lambda said: (said["info"] or {}).get("changes_pending") == 0)
    assert written(said) == 0


async def test_all_are_listed_without_their_credentials(
    couch: Client, numbers: str, replications: Replications
) -> None:
    secret = {"url": f"http://x:{PASSWORD}@127.0.0.1:9/there", "headers": {"X-Token": PASSWORD}}
    name = await replications.begin(numbers, secret, continuous=True, create_target=False)
    said = await report(couch, name, lambda said: said.get("id"))
    answers = [await couch("GET", path) for path in (DOCS, "/_scheduler/docs", JOBS)]
    (in_docs,) = [row for row in answers[0].json["docs"] if row["doc_id"] == name]
    (in_all,) = [row for row in answers[1].json["docs"] if row["doc_id"] == name]
    (job,) = [row for row in answers[2].json["jobs"] if row["doc_id"] == name]
    assert in_docs["target"] == in_all["target"] == job["target"] == "http://127.0.0.1:9/there/"
    assert job["id"] == in_docs["id"] == said["id"]
    assert job["history"][-1]["type"] == "added"
    assert {"pid", "user", "node", "start_time", "info", "database"} <= set(job)
    assert all({"total_rows", "offset"} <= set(answer.json) for answer in answers)
    one = await couch("GET", f"{JOBS}/{said['id']}")
    assert (one.status, one.json["doc_id"]) == (200, name)
    assert all(PASSWORD.encode() not in answer.body for answer in [*answers, one])


async def test_a_part_is_copied_once(couch: Client, numbers: str, replications: Replications) -> None:
    copy = replications.copy()
    name = await replications.begin(numbers, copy, selector={"n": {"$lt": 2}})
    said = await state_of(couch, name, "completed")
    assert await ids(couch, copy) == ["d0", "d1"]
    assert (said["info"]["docs_written"], said["error_count"], said["id"]) == (2, 0, None)
    doc = (await couch("GET", f"/_replicator/{name}")).json
    assert (doc["_replication_state"], doc["_replication_stats"]["docs_written"]) == ("completed", 2)
    assert doc["_replication_state_time"].endswith("Z")
    docs = (await couch("GET", DOCS, states="completed")).json["docs"]
    assert name in {row["doc_id"] for row in docs}
    docs = (await couch("GET", DOCS, states="crashing,failed")).json["docs"]
    assert name not in {row["doc_id"] for row in docs}


async def test_a_changed_document_begins_anew(
    couch: Client, numbers: str, replications: Replications
) -> None:
    copy = replications.copy()
    name = await replications.begin(numbers, copy, continuous=True, selector={"n": {"$lt": 1}})
    await until_there(couch, copy, "d0")
    first = await report(couch, name, lambda said: said.get("id"))
    await replications.change(name, selector={"n": {"$gt": 2}})
    await until_there(couch, copy, "d3")
    docs = [{"_id": "of the first", "n": 0}, {"_id": "of the second", "n": 4}]
    await couch("POST", f"{numbers}/_bulk_docs", {"docs": docs})
    await until_there(couch, copy, "of the second")
    assert await ids(couch, copy) == ["d0", "d3", "of the second"]
    assert (await couch("GET", f"{JOBS}/{first['id']}")).status == 404


async def test_another_timeout_begins_anew_and_a_note_does_not(
    couch: Client, numbers: str, replications: Replications
) -> None:
    copy = replications.copy()
    name = await replications.begin(numbers, copy, continuous=True, connection_timeout=30_000)
    await until_there(couch, copy, "d3")
    began = (await state_of(couch, name, "running"))["id"]
    job = (await couch("GET", f"{JOBS}/{began}")).json
    await replications.change(name, note="of no concern")
    marker = await replications.begin(numbers, replications.copy(), selector={"n": 0})
    await state_of(couch, marker, "completed")  # what was written before it has been read as well
    assert (await couch("GET", f"{JOBS}/{began}")).json["history"] == job["history"]
    await replications.change(name, connection_timeout=30_001)
    await couch("PUT", f"{numbers}/later", {})
    await until_there(couch, copy, "later")
    said = await report(couch, name, written)
    assert said["id"] == began


async def test_a_deleted_document_ends_it(couch: Client, numbers: str, replications: Replications) -> None:
    copy = replications.copy()
    name = await replications.begin(numbers, copy, continuous=True)
    await until_there(couch, copy, "d3")
    said = await report(couch, name, lambda said: said.get("id"))
    await delete(couch, name)
    await report(couch, name, lambda said: said.get("error") == "not_found")
    await until(lambda: has_status(couch, f"{JOBS}/{said['id']}", 404))
    await couch("PUT", f"{numbers}/later", {})
    marker = await replications.begin(numbers, copy, selector={"n": 0})
    await state_of(couch, marker, "completed")
    assert "later" not in await ids(couch, copy)


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": None},
        {"target": 5},
        {"source": "a_name"},
        {"source": "ftp://127.0.0.1/a"},
        {"source": {"url": "http://"}},
        {"source": {}},
        {"source": {"url": "http://127.0.0.1/a", "headers": 5}},
        {"continuous": "yes"},
        {"selector": 5},
        {"selector": {}, "doc_ids": []},
        {"filter": 5},
        {"filter": "nothing"},
        {"connection_timeout": "long"},
    ],
)
async def test_a_document_that_makes_no_sense_is_refused(couch: Client, wrong: dict[str, Any]) -> None:
    doc = document("http://127.0.0.1:9/a", "http://127.0.0.1:9/b") | wrong
    answer = await couch("PUT", "/_replicator/test-wrong", {k: v for k, v in doc.items() if v is not None})
    assert (answer.status, answer.json["error"]) == (403, "forbidden")
    answer = await couch("POST", "/_replicator/_bulk_docs", {"docs": [doc | {"_id": "test-wrong"}]})
    assert b'"forbidden"' in answer.body  # of CouchDB the whole request, here the one document
    assert (await couch("GET", "/_replicator/test-wrong")).status == 404


async def test_a_second_one_of_the_same_has_failed(
    couch: Client, numbers: str, replications: Replications
) -> None:
    copy = replications.copy()
    first = await replications.begin(numbers, copy, continuous=True)
    await report(couch, first, lambda said: said.get("id"))
    second = await replications.begin(numbers, copy, continuous=True)
    said = await state_of(couch, second, "failed")
    assert (said["error_count"], said["id"]) == (1, None)
    assert f"already started, triggered by document `{first}`" in said["info"]["error"]
    doc = (await couch("GET", f"/_replicator/{second}")).json
    assert (doc["_replication_state"], doc["_replication_state_reason"]) == ("failed", said["info"]["error"])
    assert (await couch("GET", f"{DOCS}/{first}")).json["state"] in {"running", "pending"}


async def test_a_missing_database_is_waited_for(
    couch: Client, numbers: str, replications: Replications
) -> None:
    copy = replications.copy()
    name = await replications.begin(numbers, copy, continuous=True, create_target=False)
    said = await state_of(couch, name, "crashing")
    assert said["error_count"] >= 1
    assert "db_not_found" in said["info"]["error"]
    assert copy in said["info"]["error"]
    assert "_replication_state" not in (await couch("GET", f"/_replicator/{name}")).json
    assert (await couch("PUT", copy)).status == 201
    await replications.change(name, connection_timeout=30_001)  # CouchDB would wait for 30 s
    await until_there(couch, copy, "d3")


async def test_what_is_not_there(couch: Client) -> None:
    for path in (f"{DOCS}/nothing", f"{JOBS}/nothing", f"{SETTINGS}/nothing"):
        answer = await couch("GET", path)
        assert (answer.status, answer.json["error"]) == (404, "not_found")
    assert (await couch("GET", "/_scheduler/docs/other")).status == 400
    assert (await couch("POST", JOBS, {})).status == 405
    assert (await couch("GET", DOCS, states="odd")).status == 400


@pytest.fixture
async def settings(couch: Client, own_settings: None) -> AsyncIterator[None]:
    """The settings of TLS are their defaults before and after the test."""
    for path in (VERIFY, CA_SETTING):
        await couch("DELETE", path)
    yield
    for path in (VERIFY, CA_SETTING):
        await couch("DELETE", path)


@pytest.mark.usefixtures("settings")
async def test_a_certificate_counts_when_the_settings_say_so(
    couch: Client, numbers: str, replications: Replications
) -> None:
    copy = replications.copy()
    inside = urlsplit(replications.server.url).port or 80
    # Two doors: through one that it believed once CouchDB goes again, over the connection that it kept.
    # By name: CouchDB on Erlang/OTP 25 finds no address in a certificate (`hostname_check_failed`).
    async with tls_door_to(inside) as careless_port, tls_door_to(inside) as port:
        far = replications.end(copy, url=f"https://localhost:{careless_port}")
        await state_of(couch, await replications.begin(numbers, far), "completed")
        assert (await couch("PUT", VERIFY, "true")).status == 200
        far = replications.end(copy, url=f"https://localhost:{port}")
        strict = await replications.begin(numbers, far, continuous=True)
        error = (await state_of(couch, strict, "crashing"))["info"]["error"]
        assert "unknown_ca" in error or "certificate" in error
        assert (await couch("PUT", CA_SETTING, str(CA_FILE))).status == 200
        await couch("PUT", f"{numbers}/later", {})
        await replications.change(strict, connection_timeout=30_001)
        await until_there(couch, copy, "later")


@pytest.mark.usefixtures("settings")
async def test_settings_are_strings(couch: Client) -> None:
    assert (await couch("GET", VERIFY)).json == {"error": "not_found", "reason": "unknown_config_value"}
    answer = await couch("PUT", VERIFY, True)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert (await couch("PUT", VERIFY, b"true", headers={"Content-Type": "application/json"})).status == 400
    assert (await couch("PUT", VERIFY, "false")).json == ""
    assert (await couch("PUT", VERIFY, " true ")).json == "false"
    assert (await couch("GET", VERIFY)).json == "true"
    assert (await couch("GET", SETTINGS)).json["verify_ssl_certificates"] == "true"
    assert (await couch("DELETE", VERIFY)).json == "true"
    assert (await couch("DELETE", VERIFY)).status == 404


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Two ports of this machine that nobody else takes."""
    with held_port() as one, held_port() as other:
        yield one, other


@asynccontextmanager
async def embedded_at(port: int, folder: Path) -> AsyncIterator[Client]:
    """An embedded server on that port, which goes on where one before it ended in the same folder."""
    process = await asyncio.to_thread(start, port, folder)
    try:
        async with client_of(f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        await asyncio.to_thread(end, process)


def start(port: int, folder: Path) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("a") as log:
        process = start_node("--data", str(folder / "data"), "--port", str(port), cwd=folder, stderr=log)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate()


@pytest.mark.replication
async def test_it_outlives_a_far_side_that_is_away_and_its_own_server(
    tmp_path: Path, ports: tuple[int, int]
) -> None:
    """Embedded only: CouchDB waits for 30 s and more."""
    here, far = ports
    ends = [f"http://127.0.0.1:{here}/numbers", f"http://127.0.0.1:{far}/copy"]
    async with AsyncExitStack() as first_life:
        node = await first_life.enter_async_context(embedded_at(here, tmp_path / "here"))
        await node("PUT", "/numbers")
        await node("PUT", "/numbers/d0", {})
        async with embedded_at(far, tmp_path / "far") as other:
            await node("PUT", "/_replicator/up", document(*ends, continuous=True))
            await until_there(other, "/copy", "d0")
            await report(node, "up", lambda said: (said["info"] or {}).get("through_seq") == 1)
        docs = [{"_id": f"away{n}"} for n in range(150)]
        await node("POST", "/numbers/_bulk_docs", {"docs": docs})
        said = await report(node, "up", lambda said: (said["info"] or {}).get("changes_pending") == 150)
        said = await state_of(node, "up", "crashing")
        assert said["error_count"] >= 1
        assert str(far) in said["info"]["error"]
        assert said["info"]["docs_written"] == 1
    async with embedded_at(here, tmp_path / "here") as node:
        said = await state_of(node, "up", "crashing")  # without anybody asking for it
        assert "ECONNREFUSED" in said["info"]["error"]
        await report(node, "up", lambda said: said["info"]["changes_pending"] == 150)
        async with embedded_at(far, tmp_path / "far") as other:
            await until_there(other, "/copy", "away149")
            said = await report(node, "up", lambda said: said["info"]["changes_pending"] == 0)
            assert (said["state"], said["info"]["docs_written"]) == ("running", 150)
            assert "error" not in said["info"]
    lines = (tmp_path / "here" / "log").read_text().splitlines()
    assert ["the replication up failed and is tried again" in line for line in lines] == [True, True]
    assert (tmp_path / "far" / "log").read_text() == ""


async def test_pending_changes_are_those_that_pass_the_filter(
    node: Client, store: str, near: Replications
) -> None:
    """Embedded only: CouchDB counts them all."""
    docs = [{"_id": f"d{n}", "n": n} for n in range(10)]
    await node("POST", f"{store}/_bulk_docs", {"docs": docs})
    away = {"url": "http://127.0.0.1:9/there"}
    choices: list[dict[str, Any]] = [{"selector": {"n": {"$lt": 3}}}, {"doc_ids": ["d1", "d2"]}, {}]
    names = [await near.begin(store, away, continuous=True, **choice) for choice in choices]
    # none while the source is slow to say so, as on a busy machine
    said = [await report(node, name, lambda said: is_crashing(said) and pending(said)) for name in names]
    assert [one["info"]["changes_pending"] for one in said] == [3, 2, 10]


async def test_a_far_side_that_says_nothing_is_given_up(node: Client, store: str, near: Replications) -> None:
    """Embedded only: CouchDB asks five times before it says so."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        far = {"url": f"http://127.0.0.1:{mute.getsockname()[1]}/there"}
        name = await near.begin(store, far, continuous=True, connection_timeout=200)
        said = await state_of(node, name, "crashing")
    assert "nothing was heard for 0.2 s" in said["info"]["error"]


@asynccontextmanager
async def half_an_answer(length: str, *, breaks_off: bool) -> AsyncIterator[str]:
    """A server that gives each connection the beginning of an answer, and then nothing or the end of it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n9\r\n{{".encode())
        if breaks_off:
            writer.close()

    async with StandIn(serve) as server:
        yield server.url


@pytest.mark.parametrize("length", ["Content-Length: 9", "Transfer-Encoding: chunked"])
async def test_an_answer_that_breaks_off_is_asked_for_again(
    node: Client, store: str, near: Replications, length: str
) -> None:
    """Embedded only, as it shows how soon."""
    async with half_an_answer(length, breaks_off=True) as far:
        name = await near.begin(store, {"url": f"{far}/there"}, continuous=True)
        said = await report(node, name, lambda said: said.get("error_count", 0) > 1)
    assert "Invalid response body" in said["info"]["error"]


async def test_the_scheduler_answers_while_a_source_does_not(node: Client, near: Replications) -> None:
    """Embedded only: it counts what is pending by itself."""
    async with half_an_answer("Content-Length: 9", breaks_off=False) as far:
        name = await near.begin({"url": f"{far}/there"}, near.copy())
        await state_of(node, name, "pending")


@pytest.mark.replication
async def test_a_quiet_feed_outlives_the_time_that_a_server_keeps_idle_connections(
    node: Client, store: str, near: Replications
) -> None:
    """Embedded only. Node takes that time for a limit of the connection, also when it is in use again."""

    def keep_less(part: bytes) -> bytes:
        return part.replace(b"Keep-Alive: timeout=5", b"Keep-Alive: timeout=2")

    inside = urlsplit(near.server.url).port or 80
    copy = near.copy()
    async with door_to(inside, change=keep_less) as port:
        await node("PUT", f"{store}/d0", {})
        far = {"url": f"http://127.0.0.1:{port}{store}"}
        name = await near.begin(far, copy, continuous=True)
        await until_there(node, copy, "d0")
        async with node.open(
            "GET", f"{copy}/_changes", feed="continuous", since="now", heartbeat=2500
        ) as feed:
            assert await feed.content.readline() == b"\n"
        said = await state_of(node, name, "running")
        job = (await node("GET", f"{JOBS}/{said['id']}")).json
        assert [event["type"] for event in job["history"]] == ["started", "added"]


async def test_settings_outlive_the_server(tmp_path: Path, ports: tuple[int, int]) -> None:
    async with embedded_at(ports[0], tmp_path / "here") as node:
        await node("PUT", CA_SETTING, "/no/such/file")
        await node("PUT", VERIFY, "true")
        await node("PUT", VERIFY, "false")
        await node("DELETE", VERIFY)
    async with embedded_at(ports[0], tmp_path / "here") as node:
        assert (await node("GET", CA_SETTING)).json == "/no/such/file"
        assert (await node("GET", VERIFY)).status == 404
        await node("PUT", VERIFY, "true")
        doc = document("https://127.0.0.1:9/a", "https://127.0.0.1:9/b")
        await node("PUT", "/_replicator/blind", doc)
        said = await state_of(node, "blind", "crashing")
        assert "can't read /no/such/file" in said["info"]["error"]


async def test_more_than_fifty_wait(own_server: EmbeddedProcess) -> None:
    async with client_of(own_server.url) as node:
        docs = [
            {"_id": f"r{n:02}"} | document("http://127.0.0.1:9/a", f"http://127.0.0.1:9/b{n}")
            for n in range(51)
        ]
        await node("POST", "/_replicator/_bulk_docs", {"docs": docs})
        await state_of(node, "r50", "pending")
        listed = (await node("GET", DOCS)).json["docs"]
        waiting = [row["doc_id"] for row in listed if row["state"] == "pending" and row["info"] is None]
        assert waiting[-1] == "r50"
        await delete(node, "r00")
        for name in waiting:
            await state_of(node, name, "crashing")
        assert (await node("GET", JOBS, limit=2, skip=1)).json["offset"] == 1
    own_server.process.terminate()
    assert await asyncio.to_thread(own_server.process.wait) == 0
    assert len(own_server.log.read_text().splitlines()) == 51  # one for each


async def test_it_can_not_be_deleted(node: Client) -> None:
    assert (await node("DELETE", "/_replicator")).status == 501
