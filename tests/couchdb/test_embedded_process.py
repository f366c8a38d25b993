"""The embedded server as a process: start, end, lock, files."""

import asyncio
import json
import signal
import subprocess

import pytest

from growd import __version__
from support.couch_client import client_of
from support.database import embedded_server, start_node


async def ended(server):
    return await asyncio.to_thread(server.process.wait)


async def test_it_names_itself_and_reports_that_it_is_up(node):
    welcome = (await node("GET", "/")).json
    assert welcome["couchdb"] == "Welcome"
    assert welcome["vendor"]["name"] == "growd embedded"
    assert welcome["version"] == __version__  # not that of CouchDB
    assert len(welcome["uuid"]) == 32
    assert (await node("GET", "/_up")).json["status"] == "ok"


def test_it_listens_on_the_loopback_address_only(embedded):
    port = f"{int(embedded.rpartition(':')[2]):04X}"
    with open("/proc/net/tcp") as tcp, open("/proc/net/tcp6") as tcp6:  # noqa: PTH123  no files of ours
        lines = [line.split() for table in (tcp, tcp6) for line in table]
    listening = [line[1] for line in lines if line[1].endswith(f":{port}") and line[3] == "0A"]
    assert listening == [f"0100007F:{port}"]


async def test_it_writes_its_port_and_its_data_and_nothing_else(own_server, tmp_path):
    async with client_of(own_server.url) as node:
        await node("PUT", "/db")
        await node("PUT", "/db/doc", {})
        await node("GET", "/nothing")
        await node("GET", "/_uuids")
    own_server.process.terminate()
    assert await ended(own_server) == 0
    assert own_server.process.stdout.read() == ""
    assert own_server.log.read_text() == ""  # no access log
    assert names_in(tmp_path) == ["data", "log", "work"]
    assert names_in(tmp_path / "work") == []
    assert names_in(own_server.data) == [".server", "_replicator", "db"]


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def interrupt(process):
    process.send_signal(signal.SIGINT)


def close_stdin(process):
    process.stdin.close()


@pytest.mark.long
@pytest.mark.parametrize("end", [subprocess.Popen.terminate, interrupt, close_stdin])
async def test_it_ends_while_feeds_are_open(own_server, end):
    async with client_of(own_server.url) as node:
        await node("PUT", "/db")
        async with (
            node.open("GET", "/db/_changes", feed="continuous") as continuous,
            node.open("GET", "/db/_changes", feed="longpoll", since="now") as longpoll,
        ):
            end(own_server.process)
            assert json.loads(await continuous.content.readline()) == {"last_seq": 0, "pending": 0}
            assert json.loads(await longpoll.read())["results"] == []
            assert await ended(own_server) == 0


async def test_acknowledged_writes_survive_its_end_and_a_kill_and_its_lock_does_not(own_server, tmp_path):
    async with client_of(own_server.url) as node:
        uuid = (await node("GET", "/")).json["uuid"]
        await node("PUT", "/db")
        docs = [{"_id": str(n)} for n in range(200)]
        write = asyncio.create_task(node("POST", "/db/_bulk_docs", {"docs": docs}), name="write")
        await node("GET", "/db/_changes", feed="longpoll", heartbeat=True)  # it has begun
        own_server.process.terminate()
        acknowledged = [row["id"] for row in (await write).json if row.get("ok")]
        assert await ended(own_server) == 0
    with embedded_server(tmp_path) as killed:
        async with client_of(killed.url) as node:
            for batch in range(10):
                docs = [{"_id": f"{batch}-{n}", "value": n} for n in range(20)]
                answer = await node("POST", "/db/_bulk_docs", {"docs": docs})
                acknowledged += [row["id"] for row in answer.json if row.get("ok")]
            killed.process.kill()
        await ended(killed)
    assert len(acknowledged) == 400
    with embedded_server(tmp_path) as again:
        async with client_of(again.url) as node:
            assert (await node("GET", "/")).json["uuid"] == uuid
            assert (await node("GET", "/_all_dbs")).json == ["_replicator", "db"]
            rows = (await node("GET", "/db/_all_docs")).json["rows"]
            assert sorted(row["id"] for row in rows) == sorted(acknowledged)
            await is_refused(again.data, tmp_path)
            assert (await node("GET", "/_up")).status == 200


async def is_refused(data, cwd):
    """A second server with the same data folder is refused."""
    assert await failed("--data", str(data), cwd=cwd) == f"another server uses the data folder {data}\n"


async def failed(*arguments, cwd):
    """What a server says that does not start."""
    with start_node(*arguments, cwd=cwd, stderr=subprocess.PIPE) as process:
        out, err = await asyncio.to_thread(process.communicate)
    assert (out, process.returncode) == ("", 1)
    return err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--data DIR is needed"),
        (["--data", "x", "--port", "http"], "--port"),
        (["--data", "x", "--function-ms", "0"], "--function-ms"),
        (["--what"], "--what"),
    ],
)
async def test_wrong_arguments_end_with_one_line(arguments, sentence, tmp_path):
    said = await failed(*arguments, cwd=tmp_path)
    assert sentence in said
    assert said.count("\n") == 1
