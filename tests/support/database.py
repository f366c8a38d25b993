"""The database that tests run against: the embedded server, or a real CouchDB named in the environment.

`GROWD_TEST_COUCHDB=http://user:password@host:port` takes that CouchDB and starts no embedded server.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.couch_client import COUCHDB_ADDRESS
from support.processes import Ending

EMBEDDED_SERVER = Path(__file__).parents[2] / "couchdb" / "embedded" / "server.mjs"


@dataclass(frozen=True)
class DatabaseServer:
    """A database server: `url` has no credentials and no slash at its end, `auth` is user and password."""

    url: str
    auth: tuple[str, str] | None
    is_embedded: bool


@dataclass(frozen=True)
class EmbeddedProcess:
    """A running embedded server; its data folder is `data`, what it logged is in `log`.

    `owner` is the user, with password, who may write design documents.
    """

    process: subprocess.Popen[str]
    url: str
    data: Path
    log: Path
    owner: tuple[str, str]


@pytest.fixture(scope="session")
def database_server(tmp_path_factory):
    if address := os.environ.get(COUCHDB_ADDRESS):
        yield named_server(address)
        return
    with embedded_server(tmp_path_factory.mktemp("database")) as embedded:
        yield DatabaseServer(embedded.url, None, is_embedded=True)


@pytest.fixture
def own_settings(database_server):
    """No other test changes settings of the whole server meanwhile: those of all workers share a CouchDB."""
    if database_server.is_embedded:
        yield
        return
    with (Path(tempfile.gettempdir()) / "growd-test-couchdb.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def embedded_server(folder, *options, client_design_documents=True):
    """Run the embedded server with its data in `folder`/data; a stray file would show in `folder`/work."""
    permitted = ["--client-design-documents"] if client_design_documents else []
    work = folder / "work"
    work.mkdir(exist_ok=True)
    log = folder / "log"
    arguments = ["--data", str(folder / "data"), "--port", "0", *permitted, *options]
    with log.open("a") as stderr, start_node(*arguments, cwd=work, stderr=stderr) as process:
        try:
            line = process.stdout.readline()
            assert line, f"the embedded server did not start: {log.read_text()}"
            told = json.loads(line)
            url = f"http://127.0.0.1:{told['port']}"
            yield EmbeddedProcess(process, url, folder / "data", log, ("growd", told["password"]))
        finally:
            process.kill()


def start_node(*arguments, cwd, stderr):
    """Start the embedded server; its stdin and stdout are pipes, as those that growd gives it."""
    node = shutil.which("node")
    assert node, "the embedded server needs Node.js: ./test brings it"
    return Ending(
        [node, str(EMBEDDED_SERVER), *arguments],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def named_server(address):
    """The CouchDB at `http://user:password@host:port`."""
    parts = urlsplit(address)
    assert parts.hostname, f"{COUCHDB_ADDRESS} must be http://user:password@host:port"
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    host = parts.netloc.rpartition("@")[2]
    return DatabaseServer(f"{parts.scheme}://{host}", auth, is_embedded=False)
