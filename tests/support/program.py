"""The whole program in another process, as `./run` starts it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import uuid
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import aiohttp
from click.testing import CliRunner

from growd.store.bootstrap import Databases
from growd_cli.main import main
from support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.database import DatabaseServer

GROWD = Path(sys.executable).with_name("growd")


@dataclass
class Program:
    """A running growd: its address, its output so far, and its process."""

    process: asyncio.subprocess.Process
    address: str
    printed: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """The login of a client of the database."""

    @property
    def api(self):
        return f"{self.address}/_svc/api/0.0.1"

    async def until_there(self, path, headers=None):
        """Wait for a document of its database; the greeting may come before the database is ready."""
        async with aiohttp.ClientSession(headers=headers) as session, asyncio.timeout(PATIENCE_S):
            while True:
                async with session.get(f"{self.address}/{path}") as answer:
                    if answer.ok:
                        return
                await asyncio.sleep(0.1)

    async def ask(self, method, path, value=None):
        """The answer in JSON to a request: of the API, or for a path that begins with / of the database."""
        url = f"{self.address}{path}" if path.startswith("/") else f"{self.api}/{path}"
        async with (
            aiohttp.ClientSession(headers=self.headers) as session,
            session.request(method, url, json=value) as answer,
        ):
            text = await answer.text()
            assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
            return json.loads(text)

    async def heard(self, topic, is_it=lambda _: True):
        """The first message of a topic that is so."""
        url = f"{self.api}/topic_stream/{topic}"
        async with (
            asyncio.timeout(PATIENCE_S),
            aiohttp.ClientSession() as session,
            session.get(url) as messages,
        ):
            async for line in messages.content:
                if is_it(message := json.loads(line)):
                    return message
        raise AssertionError(f"the stream of {topic} has ended")

    async def documents(self, database):
        """The documents of a database by their ids, without design documents."""
        answer = await self.ask("GET", f"/{database}/_all_docs?include_docs=true")
        return {row["id"]: row["doc"] for row in answer["rows"] if not row["id"].startswith("_design")}

    async def end(self, number):
        """Send a signal; the exit status and the remaining output."""
        self.process.send_signal(number)
        rest = await asyncio.wait_for(self.process.stdout.read(), PATIENCE_S)
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S), rest.decode()


@contextmanager
def heeding_hangups():
    """Do not ignore SIGHUP in this process and its children, even under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@asynccontextmanager
async def started(data, *arguments, environment=None, inside=(), headers=None):
    """Start growd on a free port and wait for its greeting. Kills it at the end if it still runs.

    `inside` is a command that runs another one, in its own process; `headers` has the login at the database.
    """
    process = await asyncio.create_subprocess_exec(
        *inside, str(GROWD), "run", "--port", "0", "--data", str(data), *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    try:
        greeting = await asyncio.wait_for(process.stdout.readuntil(b"Ctrl-C.\n"), PATIENCE_S)
        printed = greeting.decode()
        found = re.search(r"page +(http://\S+)", printed)
        assert found, printed
        yield Program(process, found[1], printed, headers or {})
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()


async def failed(*arguments, environment=None):
    """Run growd with arguments that it must refuse: the exit status and the whole output."""
    process = await asyncio.create_subprocess_exec(
        str(GROWD), *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    printed, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode is not None
    return process.returncode, printed.decode()


def said(*arguments):
    """Run growd in this process: the exit status and the output. Unexpected exceptions are raised.

    `run` starts an event loop in the main thread, so the test must not be a coroutine. Other commands may
    run in a thread.
    """
    result = CliRunner().invoke(main, arguments, prog_name="growd", catch_exceptions=False)
    return result.exit_code, result.output


def processes_that_name(path):
    """The command lines of all processes that contain this path."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it ended meanwhile
            if str(path) in line:
                found.append(line)
    return found


@dataclass(frozen=True)
class Home:
    """The databases of one program: a prefix on the database server of the tests."""

    server: DatabaseServer
    prefix: str

    @property
    def arguments(self):
        """The `settings` as arguments of a command line."""
        return tuple(argument for setting in self.settings for argument in ("--set", setting))

    @property
    def settings(self):
        """The options that select the prefix; without a prefix growd starts its own embedded database."""
        if not self.prefix:
            return ()
        user, password = self.server.auth or ("", "")
        login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
        url = self.server.url.replace("://", f"://{login}", 1)
        return f"couchdb.url={url}", f"couchdb.prefix={self.prefix}"

    @property
    def headers(self):
        """The login of a client of the database."""
        auth = self.server.auth
        return {"Authorization": aiohttp.encode_basic_auth(*auth)} if auth else {}

    @property
    def points(self):
        return f"{self.prefix}environmental_data_point"

    @property
    def events(self):
        return f"{self.prefix}environmental_event"

    @property
    def recipes(self):
        return f"{self.prefix}recipes"


@asynccontextmanager
async def home_on(server, *, shared=False):
    """Databases for one program, deleted at the end.

    With an embedded server growd starts its own database, unless it is `shared`.
    """
    prefix = f"test_{uuid.uuid4().hex[:8]}_" if shared or not server.is_embedded else ""
    home = Home(server, prefix)
    try:
        yield home
    finally:
        if prefix:
            async with aiohttp.ClientSession(headers=home.headers) as session:
                for name in Databases.prefixed(prefix).names_by_folder().values():
                    async with session.delete(f"{server.url}/{name}"):
                        pass
