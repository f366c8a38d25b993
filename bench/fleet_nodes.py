"""Nodes of Apache CouchDB that a benchmark makes from an installation folder: alone, or a cluster of three.

Each node has its own loopback address (Linux answers on all of 127.0.0.0/8), so all use the same ports, and
none needs epmd. Nothing is shared with other servers of this machine.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import signal
import subprocess
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import aiohttp
from measuring import Process
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

HTTP_PORT: Final = 5984
DISTRIBUTION_PORT: Final = 25_100
NO_EPMD_PORT: Final = "25109"  # nobody listens there: a node then goes on without epmd
ADMIN: Final = "admin"
COMES_UP_S: Final = 60.0
# mem3 pushes what was written to a shard to the next node 5 s later, and tries again 5 s after an error.
QUIET_S: Final = 11.0
JOBS: Final = "length(mem3_sync:get_active()) + length(mem3_sync:get_queue())."
# Busy waiting of several Erlang VMs on few cores would be counted as work (erl(1), +sbwt).
NO_BUSY_WAITING: Final = "+sbwt none\n+sbwtdcpu none\n+sbwtdio none\n"

SETTINGS = """
[couchdb]
database_dir = {folder}/data
view_index_dir = {folder}/data
uri_file = {folder}/uri
uuid = {uuid}
single_node = {single}
max_dbs_open = 5000
os_process_timeout = 60000
[chttpd]
bind_address = {address}
port = 5984
server_options = [{{backlog, 1024}}, {{acceptor_pool_size, 16}}, {{max, 20000}}]
[chttpd_auth]
secret = {secret}
iterations = 10
[admins]
{admin} = {password}
[cluster]
q = {q}
n = {n}
[log]
level = error
writer = file
file = {folder}/couch.log
[replicator]
max_jobs = 5000
max_churn = 500
interval = 5000
startup_jitter = 100
[smoosh]
state_dir = {folder}/data
"""


class CouchDBError(Exception):
    """A node did not answer as it should."""


class Node:
    """One CouchDB: its process, its files, and requests to it as administrator."""

    def __init__(self, release: Path, folder: Path, address: str, password: str, cookie: str) -> None:
        self.address = address
        self.name = f"couchdb@{address}"
        self.url = f"http://{address}:{HTTP_PORT}"
        self.password = password
        self.folder = folder
        self._release = release
        self._cookie = cookie
        self._process: subprocess.Popen[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None

    def configure(self, *, single: bool, q: int, n: int, secret: str) -> None:
        """Write its settings."""
        self.folder.mkdir(parents=True)
        (self.folder / "node.ini").write_text(
            SETTINGS.format(
                folder=self.folder, uuid=secrets.token_hex(16), single=str(single).lower(), secret=secret,
                address=self.address, admin=ADMIN, password=self.password, q=q, n=n,
            )
        )  # fmt: skip
        shipped = (self._release / "etc" / "vm.args").read_text("utf-8")
        kept = re.sub(r"^-(name|setcookie|kernel inet_dist).*$", "", shipped, flags=re.MULTILINE)
        own = f"-name {self.name}\n-setcookie {self._cookie}\n-start_epmd false\n"
        address = self.address.replace(".", ",")
        own += f"-erl_epmd_port {DISTRIBUTION_PORT}\n-kernel inet_dist_use_interface {{{address}}}\n"
        (self.folder / "vm.args").write_text(kept + own + NO_BUSY_WAITING)

    async def start(self) -> None:
        """Start it, and return when it answers."""
        files = f"{self._release / 'etc' / 'default.ini'} {self.folder / 'node.ini'}"
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": NO_EPMD_PORT,
            "COUCHDB_ARGS_FILE": str(self.folder / "vm.args"),
            "COUCHDB_INI_FILES": files,
        }
        with (self.folder / "output").open("ab") as output:
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                [self._release / "bin" / "couchdb"],
                env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        until = time.monotonic() + COMES_UP_S
        while not await self._is_up():
            if time.monotonic() > until or self._process.poll() is not None:
                said = (self.folder / "output").read_text("utf-8", "replace")
                raise CouchDBError(f"{self.name} does not start: {said[-2000:]}")
            await asyncio.sleep(0.1)

    async def _is_up(self) -> bool:
        try:
            status, _ = await self.asked("GET", "/_up")
        except (aiohttp.ClientError, TimeoutError):
            return False
        return status == 200

    def kill(self) -> None:
        """End it as a power cut does: kill -9."""
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its process."""
        if self._process is not None:
            self._process.send_signal(number)

    async def close(self) -> None:
        """End it, and its connections."""
        self.kill()
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def process(self) -> Process:
        """What it takes of the machine."""
        assert self._process is not None  # noqa: S101  it runs
        return Process(self._process.pid, HTTP_PORT)

    def cpu_s(self) -> float:
        """Seconds of CPU so far, its processes for JavaScript included."""
        parents = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                parents[int(file.parts[2])] = int(file.read_text("utf-8").rpartition(") ")[2].split()[1])
        family = [self.process.pid]
        for pid in family:  # grows meanwhile
            family += [child for child, parent in parents.items() if parent == pid]
        used = 0.0
        for pid in family:
            with suppress(OSError):
                used += Process(pid, 0).cpu_s()
        return used

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The JSON of an answer; `CouchDBError` for an error."""
        status, answer = await self.asked(method, path, body, **query)
        if status >= 400:
            raise CouchDBError(f"{self.name}: {method} {path}: {status} {answer}")
        return answer

    async def asked(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        url = URL(self.url + path, encoded=True)
        async with self.session.request(method, url, json=body, params=query) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else None

    async def copy(self, databases: Sequence[str]) -> dict[str, str]:
        """The revision of each document in its own files, by id: asked past the cluster."""
        names = "|".join(map(re.escape, databases))
        shard = re.compile(rf"shards/[0-9a-f]+-[0-9a-f]+/({names})\.[0-9]+")
        found: dict[str, str] = {}
        for name in await self._ask_files("_all_dbs"):
            if shard.fullmatch(name):
                rows = (await self._ask_files(f"{quote(name, safe='')}/_all_docs"))["rows"]
                found.update((row["id"], row["value"]["rev"]) for row in rows)
        return found

    async def _ask_files(self, path: str) -> Any:
        """Ask past the cluster. The first request makes a design document for logins, also on other nodes."""
        for _ in range(10):
            status, answer = await self.asked("GET", f"/_node/_local/{path}")
            if status == 200:
                return answer
            if status != 409:
                break
            await asyncio.sleep(0.2)
        raise CouchDBError(f"{self.name}: GET /_node/_local/{path}: {status} {answer}")

    @property
    def session(self) -> aiohttp.ClientSession:
        """Connections to it with the administrator's login."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=120)
            connector = aiohttp.TCPConnector(limit=0)
            login = {"Authorization": aiohttp.encode_basic_auth(ADMIN, self.password)}
            self._session = aiohttp.ClientSession(headers=login, timeout=timeout, connector=connector)
        return self._session

    async def call(self, expression: str) -> str:
        """What an Erlang expression gives in this node (erl_call(1)), which may be evaluated twice.

        erl_call sometimes can't connect to a busy node, and does the next time.
        """
        (program,) = self._release.glob("erts-*/bin/erl_call")
        target = f"{self.address}:{DISTRIBUTION_PORT}"
        said = b""
        for pause in (0.0, 0.5, 1.0, 2.0):
            await asyncio.sleep(pause)
            running = await asyncio.create_subprocess_exec(
                program, "-r", "-c", self._cookie, "-address", target, "-e",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            said, _ = await running.communicate(f"{expression}\n".encode())
            if running.returncode == 0 and said.startswith(b"{ok, "):
                return said.decode()[len("{ok, ") : -1]
        raise CouchDBError(f"{self.name}: {expression}: {said.decode()}")


class Cloud:
    """One node, or a cluster of three."""

    def __init__(self, nodes: Sequence[Node], cookie: str) -> None:
        self.nodes = nodes
        self._cookie = cookie

    async def join(self) -> None:
        """Make a cluster of its nodes, over HTTP (couchdb/cloud/README.md, "Growing to a cluster")."""
        first, *others = self.nodes
        login = {"username": ADMIN, "password": first.password, "port": HTTP_PORT}
        for node in others:
            body = {"action": "add_node", "host": node.address, **login}
            await first.ask("POST", "/_cluster_setup", body)
        await first.ask("POST", "/_cluster_setup", {"action": "finish_cluster"})
        names = {node.name for node in self.nodes}
        for node in self.nodes:
            await until(lambda node=node: _sees(node, names), f"{node.name} to see all nodes")

    async def cut(self, node: Node) -> None:
        """Part a node from the others: no connection of Erlang's distribution between them, in either way.

        Both sides expect another cookie of one another, and end their connection. Both notice at once; HTTP
        and the files go on. `heal` undoes it.
        """
        others = [other for other in self.nodes if other is not node]
        for one, two in [(node, each) for each in others] + [(each, node) for each in others]:
            foreign = f"erlang:set_cookie('{two.name}', '{one.address}')"  # another one at the other end
            await one.call(f"{foreign}, erlang:disconnect_node('{two.name}').")
        for each in others:
            seen = await each.call("nodes().")
            if node.name in seen:
                raise CouchDBError(f"{each.name} still reaches {node.name}")

    async def heal(self) -> None:
        """Let all nodes reach one another again, and return when they do."""
        for one in self.nodes:
            for two in self.nodes:
                if one is not two:
                    cookie = f"erlang:set_cookie('{two.name}', '{self._cookie}')"
                    await one.call(f"{cookie}, net_kernel:connect_node('{two.name}').")
        names = {node.name for node in self.nodes}
        for node in self.nodes:
            await until(lambda node=node: _connected(node, names), f"{node.name} to reach all nodes")

    async def settle(self, patience_s: float) -> float:
        """Wait until nodes have nothing to copy to one another; the seconds until the last job ended.

        `internal_replication_jobs` of `/_node/_local/_system` does not count jobs that have just begun or
        wait for another try, so this asks mem3_sync itself, and until it has been idle for `QUIET_S`.
        """
        began = idle = time.monotonic()
        while len(self.nodes) > 1 and time.monotonic() - idle < QUIET_S:
            if any(int(jobs) for jobs in await asyncio.gather(*(node.call(JOBS) for node in self.nodes))):
                idle = time.monotonic()
            if idle - began > patience_s:
                raise TimeoutError(f"the nodes still copied to one another after {patience_s:g} s")
            await asyncio.sleep(0.5)
        return idle - began

    async def copies(self, databases: Sequence[str]) -> list[dict[str, str]]:
        """The revision of each document in the files of each node, by id."""
        return [await node.copy(databases) for node in self.nodes]

    def file_bytes(self) -> int:
        """The size of all database files of all nodes, without CouchDB's own databases."""
        return sum(
            file.stat().st_size
            for node in self.nodes
            for file in (node.folder / "data" / "shards").rglob("*.couch")
            if not file.name.startswith("_")
        )


@asynccontextmanager
async def cloud(release: Path, folder: Path, number: int, *, q: int) -> AsyncIterator[Cloud]:
    """A running CouchDB of one node, or a cluster; ended and without files afterwards."""
    password, cookie, secret = (secrets.token_hex(12) for _ in range(3))
    net = f"127.{secrets.randbelow(250) + 2}.{secrets.randbelow(250) + 2}"
    nodes = [Node(release, folder / f"node{n}", f"{net}.{n + 1}", password, cookie) for n in range(number)]
    try:
        for node in nodes:
            node.configure(single=number == 1, q=q, n=number, secret=secret)
            await node.start()
        made = Cloud(nodes, cookie)
        if number > 1:
            await made.join()
        yield made
    finally:
        for node in nodes:
            await node.close()


async def until(condition: Any, what: str, patience_s: float = COMES_UP_S) -> None:
    """Return when the coroutine function gives true. `TimeoutError` names what did not happen."""
    end = time.monotonic() + patience_s
    while not await condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {patience_s:g} s for {what}")
        await asyncio.sleep(0.2)


async def _sees(node: Node, names: set[str]) -> bool:
    members = await node.ask("GET", "/_membership")
    return set(members["cluster_nodes"]) == names == set(members["all_nodes"])


async def _connected(node: Node, names: set[str]) -> bool:
    return set((await node.ask("GET", "/_membership"))["all_nodes"]) == names
