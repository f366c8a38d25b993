"""The embedded database as a child: start, restart, end, and its log."""

import asyncio
import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from growd.runtime.pauses import Pauses
from growd.store.couch import Couch
from growd.store.embedded import ASK_EVERY_S, UNANSWERED, EmbeddedDatabase
from support.clock import ManualClock
from support.processes import child_with
from support.running import in_tasks
from support.waiting import PATIENCE_S

SERVER = Path(__file__).parents[2] / "couchdb" / "embedded" / "server.mjs"
until = ManualClock().until

# Stand-ins for the server, written in Python, so that they can misbehave. They get the same arguments.
LISTENS = 'print(\'{"port": 12345, "password": "secret"}\', flush=True)'
WAITS_FOR_THE_END_OF_STDIN = "sys.stdin.read()"
SAYS_WHO_IT_IS = "print(f'pid {os.getpid()} session {os.getsid(0)}', file=sys.stderr, flush=True)"


def stand_in(folder, *lines):
    script = folder / "server.py"
    script.write_text("\n".join(["import os, signal, sys, time", *lines]))
    return script


def database(script, data, **options):
    node = shutil.which("node") if script.suffix == ".mjs" else sys.executable
    assert node
    return EmbeddedDatabase(node, script, data, **({"pauses": Pauses(0.01, 0.02, least=1.0)} | options))


@contextlib.asynccontextmanager
async def running(embedded):
    async with in_tasks(embedded):
        yield
    assert embedded.url is None


def pids(caplog):
    """The processes that have reported their ids."""
    said = [re.search(r"embedded database: pid (\d+)", record.getMessage()) for record in caplog.records]
    return [int(found[1]) for found in said if found]


@pytest.fixture(autouse=True)
def keep_log(caplog):
    caplog.set_level(logging.INFO, "growd.store.embedded")


async def test_the_real_server_serves_is_restarted_and_keeps_its_data(tmp_path, caplog):
    addresses = []
    embedded = database(SERVER, tmp_path / "data")
    embedded.on_up = lambda: addresses.append(embedded.url)
    async with running(embedded), aiohttp.ClientSession() as session:
        couch = Couch(session, lambda: embedded.url)
        first = await up(embedded)
        await couch.create("kept")
        await couch.put("kept", {"_id": "a", "value": 1})

        os.kill(child_with(str(tmp_path / "data")), signal.SIGKILL)
        await until(lambda: embedded.url != first)
        second = await up(embedded)
        assert (embedded.starts, embedded.crashes, embedded.hangs) == (2, 1, 0)
        assert addresses == [first, second]
        assert "signal 9" in caplog.text
        document = await couch.get("kept", "a")
        assert document["value"] == 1

        caplog.clear()
        pid = child_with(str(tmp_path / "data"))
        for number in (signal.SIGTERM, signal.SIGINT):  # as systemd sends them to all
            os.kill(pid, number)
        await couch.put("kept", {"_id": "b"})  # as with the last points
        assert embedded.starts == 2
    assert not is_there(pid)
    assert [each.message for each in caplog.records if each.levelno > logging.INFO] == []


async def up(embedded):
    """The address of the child, once it listens."""
    return await asyncio.wait_for(embedded.ready(), PATIENCE_S)


def is_there(pid):
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def test_it_has_its_own_session_and_gets_sigterm_first(tmp_path, caplog):
    script = stand_in(
        tmp_path,
        SAYS_WHO_IT_IS,
        "def leave(*_):",
        "    print('asked', file=sys.stderr, flush=True)",
        "    os._exit(0)",
        "signal.signal(signal.SIGTERM, leave)",
        LISTENS,
        "while True: signal.pause()",
    )
    async with running(embedded := database(script, tmp_path)):
        assert await up(embedded) == "http://127.0.0.1:12345"
        (pid,) = pids(caplog)
        assert f"session {pid}" in caplog.text
    assert "embedded database: asked" in caplog.text
    assert not is_there(pid)


async def test_a_child_that_ignores_sigterm_is_killed(tmp_path, caplog):
    ignores = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    script = stand_in(tmp_path, SAYS_WHO_IT_IS, ignores, LISTENS, "while True: signal.pause()")
    async with running(embedded := database(script, tmp_path)):
        await up(embedded)
        (pid,) = pids(caplog)
    assert "did not end after SIGTERM; killing it" in caplog.text
    assert not is_there(pid)


async def test_only_asyncio_waits_for_the_child(tmp_path, monkeypatch):
    def poll(self):
        raise AssertionError("a poll may reap the child before asyncio's watcher, which then warns")

    embedded = database(stand_in(tmp_path, LISTENS, "sys.stdin.read()"), tmp_path)
    async with running(embedded):
        await embedded.ready()
        monkeypatch.setattr(subprocess.Popen, "poll", poll)
    monkeypatch.undo()


async def test_it_is_restarted_after_growing_pauses(tmp_path, caplog, said):
    script = stand_in(tmp_path, SAYS_WHO_IT_IS, LISTENS, "sys.exit(3)")
    embedded = database(script, tmp_path)
    async with running(embedded):
        await until(lambda: embedded.starts >= 4)
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(set(pids(caplog))) >= 4
    said(errors[:3])


def is_asked():
    """Whether a question to a child waits for its answer."""
    return any(task.get_name() == "embedded database: question" for task in asyncio.all_tasks())


def answering(folder, answer):
    """A stand-in that answers each request."""
    return stand_in(
        folder,
        "import socket",
        "listening = socket.create_server(('127.0.0.1', 0))",
        'print(\'{"port": %d, "password": ""}\' % listening.getsockname()[1], flush=True)',
        "while True:",
        "    connection = listening.accept()[0]",
        f"    connection.recv(9000), connection.sendall({answer!r})",
        "    connection.close()",
    )


async def test_a_child_that_hangs_is_killed_and_replaced(tmp_path, caplog, said):
    clock = ManualClock()
    embedded = database(answering(tmp_path, b"HTTP/1.1 200 OK\r\n"), tmp_path / "data", clock=clock)
    silent = []
    embedded.on_silent = lambda: silent.append(embedded.url)
    async with running(embedded):
        first = await up(embedded)
        pid = child_with(str(tmp_path / "data"))
        for _ in range(2 * UNANSWERED):
            await until(lambda: not is_asked())
            await clock.advance(ASK_EVERY_S)
        await until(lambda: not is_asked())
        for ends in (False, True):
            os.kill(pid, signal.SIGSTOP)  # like a long function, or an endless one
            await clock.advance(ASK_EVERY_S)
            assert embedded.url == first
            await clock.advance(ASK_EVERY_S)
            assert embedded.url is None
            if not ends:
                os.kill(pid, signal.SIGCONT)
                await until(lambda: embedded.url == first)
        assert silent == [None, None]
        await clock.advance(ASK_EVERY_S * (UNANSWERED - 2))
        assert (embedded.hangs, embedded.starts) == (0, 1)
        await clock.advance(ASK_EVERY_S)
        await until(lambda: embedded.starts == 2)
        assert (embedded.hangs, embedded.crashes) == (1, 0)
    said([record.getMessage() for record in caplog.records if record.levelno == logging.ERROR])


async def test_a_child_that_closes_each_connection_is_replaced(tmp_path):
    clock = ManualClock()
    embedded = database(answering(tmp_path, b""), tmp_path / "data", clock=clock)
    async with running(embedded):
        await up(embedded)
        for _ in range(UNANSWERED + 1):
            await until(lambda: not is_asked())
            await clock.advance(ASK_EVERY_S)
        await until(lambda: embedded.hangs == 1)


async def failure(embedded, caplog):
    def first_error():
        errors = (record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)
        return next(errors, None)

    async with running(embedded):
        await until(lambda: first_error() is not None)
        assert embedded.url is None
    return first_error() or ""


async def test_a_failure_that_repeats_is_logged_once(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "growd.store.embedded")
    script = stand_in(tmp_path, "sys.exit(1)")
    async with running(database(script, tmp_path)):
        await until(lambda: caplog.text.count("it printed nothing") >= 3)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


async def test_missing_packages_of_npm_are_one_sentence_with_the_command_that_installs_them(tmp_path, caplog):
    installed = tmp_path / "installed"  # as pip installs it
    shutil.copytree(SERVER.parent, installed, ignore=shutil.ignore_patterns("node_modules"))
    sentence = await failure(database(installed / SERVER.name, tmp_path / "data"), caplog)
    assert f"`npm ci --omit=dev --prefix {installed}`" in sentence
    assert [record for record in caplog.records if "embedded database: " in record.getMessage()] == []


async def test_the_last_line_of_a_failed_start_is_the_reason(tmp_path, caplog):
    script = stand_in(tmp_path, "print('the folder is in use', file=sys.stderr)", "sys.exit(1)")
    sentence = await failure(database(script, tmp_path), caplog)
    assert "ended with status 1 before it listened: the folder is in use" in sentence


@pytest.mark.parametrize("line", ["hello", '{"port": 1}'])
async def test_a_first_line_without_a_port_is_reported(tmp_path, caplog, line):
    script = stand_in(tmp_path, f"print({line!r}, flush=True)", WAITS_FOR_THE_END_OF_STDIN)
    assert "first line has no port and password" in await failure(database(script, tmp_path), caplog)


async def test_a_child_that_never_listens_is_killed(tmp_path, caplog):
    script = stand_in(tmp_path, WAITS_FOR_THE_END_OF_STDIN)
    sentence = await failure(database(script, tmp_path, start_timeout=0.05), caplog)
    assert "did not listen within 0.05 s" in sentence


async def test_its_lines_reach_the_log_however_long_and_broken(tmp_path, caplog):
    script = stand_in(
        tmp_path,
        "sys.stderr.buffer.write(b'x' * 300_000 + b'\\n\\xff\\xfe broken\\n\\nlast')",
        "sys.stderr.flush()",
        LISTENS,
        WAITS_FOR_THE_END_OF_STDIN,
    )
    async with running(embedded := database(script, tmp_path)):
        await up(embedded)
        await until(lambda: "broken" in caplog.text)
    lines = [record.getMessage().removeprefix("embedded database: ") for record in caplog.records]
    assert sum(len(line) for line in lines if {*line} == {"x"}) == 300_000
    assert lines[-1] == "last"


HOLDER = """
import asyncio, sys, pathlib
from growd.store.embedded import EmbeddedDatabase
async def main():
    folder = pathlib.Path(sys.argv[1])
    embedded = EmbeddedDatabase(sys.executable, folder / "server.py", folder / "data")
    task = asyncio.create_task(embedded.run())
    print(await embedded.ready(), flush=True)
    await task
asyncio.run(main())
"""


async def test_it_ends_when_growd_was_killed(tmp_path):
    """The pipe on its standard input closes when growd ends in any way."""
    stand_in(tmp_path, LISTENS, WAITS_FOR_THE_END_OF_STDIN)
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert await asyncio.wait_for(holder.stdout.readline(), PATIENCE_S)
    pid = child_with(str(tmp_path / "data"))
    holder.kill()
    await holder.wait()
    await until(lambda: not is_there(pid))
