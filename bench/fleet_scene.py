"""A cloud with its receivers and devices, as a benchmark of a fleet needs it."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fleet_devices import Audit, Devices, Follower, audit
from fleet_load import POINTS
from fleet_nodes import cloud, until
from fleet_receivers import Proxy, Receiver, make_accounts
from fleet_relay import Relay

from growd.store.points import PointMaker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fleet_nodes import Cloud
    from measuring import Options

DIRECT: Final = "points"
GUARD: Final = Path(__file__).parents[1] / "couchdb" / "cloud" / "design" / "guard.json"
SHARDS: Final = 2


class Scene:
    """A cloud with its receivers, and devices that replicate into it."""

    def __init__(self, made: Cloud, devices: Devices, receivers: list[Receiver], proxy: Proxy | None) -> None:
        self.cloud = made
        self.devices = devices
        self.receivers = receivers
        self.proxy = proxy
        self.logins: dict[str, tuple[str, str]] = {}
        self.databases: list[str] = []
        self.relay: Relay | None = None

    @property
    def first(self) -> Any:
        """The node that the benchmark asks."""
        return self.cloud.nodes[0]

    @property
    def url(self) -> str:
        """Where devices send."""
        return self.proxy.url if self.proxy else self.first.url

    @property
    def target(self) -> str:
        """The database that devices name."""
        return POINTS if self.receivers else DIRECT

    async def prepare(self, *, guarded: bool) -> None:
        """Accounts, and the database where there is no receiver."""
        self.logins = await make_accounts(self.first, self.devices.names)
        if self.receivers:
            every = await self.first.ask("GET", "/_all_dbs")
            self.databases = [name for name in every if name.startswith("points_")]
            return
        self.databases = [DIRECT]
        await self.first.ask("PUT", f"/{DIRECT}?partitioned=true")
        access = {"admins": {"names": [], "roles": ["_admin"]}, "members": {"names": [], "roles": ["device"]}}
        await self.first.ask("PUT", f"/{DIRECT}/_security", access)
        if guarded:
            design = GUARD.read_bytes()
            async with self.first.session.put(
                f"{self.first.url}/{DIRECT}/_design/guard", data=design
            ) as answer:
                answer.raise_for_status()

    async def replicate(self) -> None:
        """Start the replications of all devices, through a relay that counts."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        self.relay = Relay(host, int(port))
        await self.devices.make_databases()
        await self.devices.replicate(await self.relay.start(), self.logins, self.target)
        await until(self._all_run, "all replications to run")

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Note what arrives, around the body."""
        node = self.cloud.nodes[-1] if len(self.cloud.nodes) == 1 else self.first
        follower = Follower(node, self.devices.ledger)
        tasks = [asyncio.create_task(follower.follow(each)) for each in self.databases]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def audit(self) -> Audit:
        """Compare devices and cloud."""
        return await audit(self.devices, self.first, self.databases)

    async def missing_in_copies(self) -> list[int]:
        """How many points of the devices are not in the files of each node."""
        expected = (await self.devices.revisions()).keys()
        return [len(expected - copy.keys()) for copy in await self.cloud.copies(self.databases)]

    def cpu_s(self) -> dict[str, float]:
        """CPU so far of CouchDB in the cloud, of receivers and proxy, and of the devices' CouchDB."""
        front: list[Receiver | Proxy] = [*self.receivers, *([self.proxy] if self.proxy else [])]
        return {
            "CouchDB": sum(node.cpu_s() for node in self.cloud.nodes),
            "receivers and HAProxy": sum(each.process.cpu_s() for each in front),
            "devices": self.devices.node.cpu_s(),
        }

    async def _all_run(self) -> bool:
        return (await self.devices.states()).get("running", 0) == len(self.devices.names)

    async def close(self) -> None:
        """End what it has started."""
        for receiver in self.receivers:
            receiver.kill()
        if self.proxy:
            self.proxy.kill()
        if self.relay:
            await self.relay.close()


@asynccontextmanager
async def scene(
    options: Options, nodes: int, number: int, *, receivers: bool = True, guarded: bool = False
) -> AsyncIterator[Scene]:
    """A running scene, and nothing left of it afterwards."""
    release = options.arguments.couchdb
    with tempfile.TemporaryDirectory(prefix="growd-bench-") as name:
        folder = Path(name)
        async with (
            cloud(release, folder / "cloud", nodes, q=SHARDS) as made,
            cloud(release, folder / "devices", 1, q=1) as local,
        ):
            net = made.nodes[0].address.rpartition(".")[0]
            behind = [*made.nodes] if nodes > 1 else [*made.nodes] * 2
            front = [Receiver(node, f"{net}.{n + 101}", folder) for n, node in enumerate(behind)]
            proxy = Proxy(front, f"{net}.100", folder) if receivers else None
            devices = Devices(local.nodes[0], [PointMaker.new_device() for _ in range(number)])
            built = Scene(made, devices, front if receivers else [], proxy)
            try:
                for receiver in built.receivers:
                    await receiver.start()
                if proxy:
                    await proxy.start()
                await built.prepare(guarded=guarded)
                yield built
            finally:
                await built.close()
