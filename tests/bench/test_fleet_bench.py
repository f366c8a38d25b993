"""The benchmark of a fleet, with few devices for seconds: nothing lost, nothing twice."""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import fleet
import measuring
import pytest
from aiohttp import web
from fleet_devices import Devices, Ledger, audit, percentile
from fleet_load import POINTS
from fleet_nodes import ADMIN, CouchDBError, cloud, until
from fleet_receivers import is_up, make_accounts
from fleet_relay import Relay
from fleet_scene import scene
from measuring import Options, limited

from growd.store.points import PointMaker

pytestmark = [pytest.mark.bench, pytest.mark.timeout(240)]

COUCHDB = Path(os.environ.get("GROWD_TEST_COUCHDB_HOME", "/opt/couchdb"))
needs_couchdb = pytest.mark.skipif(
    not (COUCHDB / "bin" / "couchdb").exists() or shutil.which("haproxy") is None,
    reason="GROWD_TEST_COUCHDB_HOME names an installation of CouchDB 3.5; the package haproxy is needed",
)
DEVICES = ("0123456789ab", "0123456789ac")
# With this document CouchDB remembers the roles of the administrator. Without it, it looks for it at each
# request, and then waits for other nodes.
REMEMBERED = {
    "name": ADMIN,
    "type": "user",
    "roles": [],
    "password_scheme": "simple",
    "salt": "",
    "password_sha": "",
}


def run(*options, environment=None):
    command = [sys.executable, measuring.HERE / "fleet.py", "--json", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=environment)


def test_without_couchdb_it_says_what_it_needs():
    done = run()
    assert (done.returncode, json.loads(done.stdout)["rows"]) == (0, [])
    assert "needs --couchdb FOLDER" in done.stderr


@needs_couchdb
@pytest.mark.parametrize(
    ("scenario", "nodes"),
    [("receiver", "1"), ("outage", "1"), ("node", "3"), ("alone", "3"), ("partition", "3")],
)
def test_every_point_arrives_exactly_once(scenario, nodes):
    quick = ["--devices", "3", "--seconds", "4", "--every", "1", "--points", "10", "--backlog", "600"]
    done = run("--couchdb", str(COUCHDB), "--scenario", scenario, "--nodes", nodes, *quick)
    assert done.returncode == 0, done.stderr
    rows = {row["case"].partition(": ")[2]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["points in all"]["growd"] >= 100
    assert rows["lost, doubled or changed"]["growd"] == 0
    assert rows["missing in the files of any node"]["growd"] == 0


def test_a_scenario_that_breaks_off_is_told_in_words(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "vm.args").touch()
    program = tmp_path / "bin" / "couchdb"
    program.write_text("#!/bin/sh\necho no license\nexit 1\n")
    program.chmod(0o700)
    proxy = tmp_path / "bin" / "haproxy"
    proxy.symlink_to(program)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    options = ("--couchdb", str(tmp_path), "--scenario", "twice", "--scenario", "hang", "--nodes", "1")
    done = run(*options, environment={**os.environ, "PATH": path})
    assert (done.returncode, json.loads(done.stdout)["rows"]) == (1, [])
    assert "FAILED: one node, twice: couchdb@" in done.stderr
    assert done.stderr.endswith("1 failures, named above\n")
    assert "does not start: no license" in done.stderr
    assert "one node, hang: left out, it needs three nodes" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_point_is_a_failure_in_words():
    rows = [
        limited("lost", "points", 3, 0),
        limited("points in all", "points", 9),
        limited("d", "points", 0, 0),
    ]
    assert fleet.not_met(rows) == ["lost: 3 points, not at most 0 points"]


# --- what the comparison finds


@pytest.fixture
async def node(tmp_path):
    async with cloud(COUCHDB, tmp_path, 1, q=1) as made:
        yield made


@needs_couchdb
async def test_the_comparison_finds_what_is_missing_twice_changed_and_in_conflict(node):
    (couch,) = node.nodes
    devices = Devices(couch, DEVICES)
    await devices.make_databases()
    for name in DEVICES:
        await devices.write(name, 3)
    for database in ("one", "two"):
        await couch.ask("PUT", f"/{database}", q=1)
    first, second, third = await devices.documents(DEVICES[0])
    conflict = third | {"_rev": "1-" + "f" * 32}
    in_one = [first, {**second, "_rev": "1-" + "0" * 32, "value": -1}, third, conflict]
    foreign = {**first, "_id": "x" + first["_id"][1:]}
    for database, docs in (("one", in_one), ("two", [first, foreign])):
        await couch.ask("POST", f"/{database}/_bulk_docs", {"docs": docs, "new_edits": False})
    found = await audit(devices, couch, ["one", "two"])
    assert (found.points, found.missing, found.foreign, found.twice) == (6, 3, 1, 1)
    assert (found.conflicts, found.different) == (1, 2)
    assert not found.is_whole


@needs_couchdb
async def test_a_receiver_acknowledges_nothing_for_a_node_that_is_parted_from_the_others():
    options = Options(1, 1, argparse.Namespace(couchdb=COUCHDB))
    async with scene(options, 3, 1) as here:
        (login,) = here.logins.values()
        docs = [point(login[0], here.databases)]
        for receiver in here.receivers:  # the login is remembered
            assert await sent(receiver.url, "_revs_diff", login, {}) == 200
        await here.cloud.cut(here.cloud.nodes[-1])
        for receiver, status in zip(here.receivers, (201, 201, 503), strict=True):
            for _ in range(2):  # what the first try stored is no reason to acknowledge the second
                assert (
                    await sent(receiver.url, "_bulk_docs", login, {"docs": docs, "new_edits": False})
                    == status
                )
        revisions = {docs[0]["_id"]: [docs[0]["_rev"]]}
        assert await sent(here.receivers[-1].url, "_revs_diff", login, revisions) == 503
        new = (await make_accounts(here.first, ["0123456789ad"]))["0123456789ad"]
        for receiver, status in zip(here.receivers, (200, 200, 503), strict=True):
            assert await sent(receiver.url, "_revs_diff", new, {}) == status  # the third node has no account
        await until(lambda: is_down(here.receivers[-1].url), "the parted receiver to say so")
        await here.cloud.heal()
        assert (
            await sent(here.receivers[-1].url, "_bulk_docs", login, {"docs": docs, "new_edits": False}) == 201
        )


@needs_couchdb
async def test_a_receiver_acknowledges_nothing_while_two_of_three_nodes_hang():
    options = Options(1, 1, argparse.Namespace(couchdb=COUCHDB))
    async with scene(options, 3, 1) as here:
        (login,) = here.logins.values()
        month = min(here.databases)
        document = point(login[0], here.databases)
        body = {"docs": [document], "new_edits": False}
        revisions = {document["_id"]: [document["_rev"]]}
        first, *others = here.cloud.nodes
        status, _ = await first.asked("PUT", f"/_users/org.couchdb.user:{ADMIN}", REMEMBERED)
        assert status in {201, 409}  # CouchDB 3.5 may write one by itself
        assert await first.copy([month]) == {}
        receiver = here.receivers[0].url
        assert await sent(receiver, "_revs_diff", login, revisions) == 200
        for node in others:
            node.send(signal.SIGSTOP)
        alone = asyncio.create_task(first.asked("POST", f"/{month}/_bulk_docs", body))
        try:
            await until(lambda: has_copy(first, month), "the only copy")
            assert await sent(receiver, "_revs_diff", login, revisions) == 503
            assert await sent(receiver, "_bulk_docs", login, body) == 503
            await until(lambda: is_down(receiver), "the receiver to say so")
        finally:
            for node in others:
                node.send(signal.SIGCONT)
        assert await alone == (201, [])
        await until(lambda: is_up(receiver), "the receiver")
        assert await sent(receiver, "_bulk_docs", login, body) == 201
        await here.cloud.settle(60)
        assert await here.cloud.copies([month]) == [{document["_id"]: document["_rev"]}] * 3


def point(device, databases):
    """A point of the first of these months, whose database is there."""
    at = datetime.strptime(min(databases)[-7:], "%Y_%m").replace(tzinfo=UTC).timestamp()
    made = PointMaker(device).make("environment_1", "air_temperature", 21.5, at).document()
    return made | {"_rev": "1-" + "a" * 32}


async def is_down(url):
    """Whether a receiver says that it is not up. It remembers its answer for a second."""
    return not await is_up(url)


async def has_copy(node, database):
    return bool(await node.copy([database]))


async def sent(url, what, login, body):
    fields = {"Authorization": aiohttp.encode_basic_auth(*login)}
    async with (
        aiohttp.ClientSession(headers=fields) as session,
        session.post(f"{url}/{POINTS}/{what}", json=body) as answer,
    ):
        return answer.status


@needs_couchdb
async def test_an_error_of_a_node_names_the_request(node):
    with pytest.raises(CouchDBError, match=r"GET /nothing: 404 .*not_found"):
        await node.nodes[0].ask("GET", "/nothing")


async def test_what_has_not_arrived_is_counted_and_named():
    ledger = Ledger({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.5, "b": 6.0})
    assert ledger.waiting() == 1
    assert ledger.lags() == [0.5, 4.0]
    assert percentile([float(n) for n in range(100)], 0.99) == 99.0
    assert ledger.lags(after=1.0) == [4.0]
    with pytest.raises(TimeoutError, match="1 of 3 points did not arrive; none came for 0 s"):
        await ledger.all_there(0)
    ledger.arrived["c"] = time.monotonic()
    assert await ledger.all_there(0) == ledger.arrived["c"]


async def test_the_relay_counts_requests_by_kind_and_bytes():
    async def answer(request):
        await request.read()
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    relay = Relay("127.0.0.1", runner.addresses[0][1])
    try:
        url = await relay.start()
        async with aiohttp.ClientSession() as session:
            for method, path in (("PUT", "/points/_local/abc"), ("POST", "/points/_bulk_docs")):
                async with session.request(method, url + path, data=b"x" * 1_000):
                    pass
        assert relay.requests == {"PUT /DB/_local/ID": 1, "POST /DB/_bulk_docs": 1}
        assert relay.up > 2_000
        assert relay.connections == 1
    finally:
        await relay.close()
        await runner.cleanup()
        await asyncio.sleep(0)
