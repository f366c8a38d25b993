"""Receivers (`growd cloud receive`) of a benchmark, HAProxy in front of them, and accounts of devices."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Final

import aiohttp
from fleet_nodes import ADMIN, COMES_UP_S, CouchDBError, until
from measuring import GROWD, Process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fleet_nodes import Cloud, Node

PORT: Final = 5990
ROLE: Final = "device"
HASHED: Final = 10  # times: random passwords need no more, and the benchmark makes hundreds of accounts

PROXY = """
global
    maxconn 8000
defaults
    mode http
    timeout connect 2s
    timeout client 120s
    timeout server 120s
    retries 2
    option redispatch 1
    option httpchk
    http-check send meth GET uri /_up ver HTTP/1.1 hdr Host cloud
frontend devices
    bind {address}:{port}
    default_backend receivers
backend receivers
    balance leastconn
    default-server check inter 1s fall 1 rise 1
{servers}
"""


class Receiver:
    """One process of `growd cloud receive`, in front of one node."""

    def __init__(self, node: Node, address: str, folder: Path) -> None:
        self.address = address
        self.url = f"http://{address}:{PORT}"
        self._node = node
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and return when it answers."""
        credentials = self._folder / "receiver.credentials"
        credentials.touch(mode=0o600)
        credentials.write_text(f"{ADMIN}\n{self._node.password}\n")
        command = [
            str(GROWD),
            "cloud",
            "receive",
            "--couchdb",
            self._node.url,
            "--credentials",
            str(credentials),
        ]
        command += ["--host", self.address, "--port", str(PORT)]
        with (self._folder / f"receiver-{self.address}.log").open("ab") as log:
            self._process = await asyncio.to_thread(subprocess.Popen, command, stdout=log, stderr=log)

        async def answers() -> bool:
            if self._process is None or self._process.poll() is not None:
                said = (self._folder / f"receiver-{self.address}.log").read_text("utf-8", "replace")
                raise CouchDBError(f"growd cloud receive has ended: {said[-1000:]}")
            return await is_up(self.url)

        await until(answers, f"the receiver at {self.url}")

    def kill(self) -> None:
        """End it as a power cut does: kill -9."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    @property
    def process(self) -> Process:
        """What it takes of the machine."""
        assert self._process is not None  # noqa: S101  it runs
        return Process(self._process.pid, PORT)


class Proxy:
    """HAProxy in front of receivers: leaves out those whose `/_up` is not 200."""

    def __init__(self, receivers: Sequence[Receiver], address: str, folder: Path) -> None:
        self.url = f"http://{address}:{PORT}"
        servers = "\n".join(f"    server r{n} {each.address}:{PORT}" for n, each in enumerate(receivers))
        self._file = folder / "haproxy.cfg"
        self._file.write_text(PROXY.format(address=address, port=PORT, servers=servers))
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and return when a receiver answers through it."""
        command = ["haproxy", "-db", "-f", str(self._file)]
        self._process = await asyncio.to_thread(subprocess.Popen, command, stderr=subprocess.DEVNULL)
        await until(lambda: is_up(self.url), "HAProxy")

    def kill(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def process(self) -> Process:
        """What it takes of the machine."""
        assert self._process is not None  # noqa: S101  it runs
        return Process(self._process.pid, PORT)


async def is_up(url: str) -> bool:
    """Whether a server says that it is up."""
    timeout = aiohttp.ClientTimeout(total=5)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{url}/_up") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def make_accounts(node: Node, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """An account for each device, by name: user and password."""
    logins = {name: (name, secrets.token_urlsafe(24)) for name in names}
    docs = []
    for user, password in logins.values():
        salt = secrets.token_hex(16)
        derived = hashlib.pbkdf2_hmac("sha256", password.encode(), salt.encode(), HASHED).hex()
        docs.append(
            {
                "_id": f"org.couchdb.user:{user}", "name": user, "type": "user", "roles": [ROLE],
                "password_scheme": "pbkdf2", "pbkdf2_prf": "sha256", "iterations": HASHED, "salt": salt,
                "derived_key": derived,
            }
        )  # fmt: skip
    await node.asked("PUT", "/_users")
    for row in await node.ask("POST", "/_users/_bulk_docs", {"docs": docs}):
        if "error" in row:
            raise CouchDBError(f"the account {row['id']}: {row}")
    return logins


async def recovered(cloud: Cloud, since: float) -> float:
    """Seconds until all nodes of the cloud answer."""

    async def all_up() -> bool:
        return all([await is_up(node.url) for node in cloud.nodes])

    await until(all_up, "all nodes", COMES_UP_S)
    return time.monotonic() - since
