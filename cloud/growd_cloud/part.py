"""The part of a running daemon that replicates its databases and sends reports of it to a cloud."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from typing import TYPE_CHECKING

from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd_cloud.access import read_access
from growd_cloud.replicator import Replicator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.parts import Surroundings


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Replicate to the server of [replication] for the body, and report to it, if there is one.

    Without one the replicator deletes what it wrote for the server before.
    """
    options = around.present().replication
    access = await asyncio.to_thread(read_access, options)
    replicator = Replicator(
        around.bus,
        around.database,
        options,
        around.device,
        access=access,
    )
    around.database.when_up(replicator.look_now)
    async with Supervisor(RealClock(), around.bus.liveness) as supervisor:
        supervisor.start(replicator.node.name, replicator.run)
        if options.url:
            from growd_cloud.reporter import CloudReporter  # noqa: PLC0415  imported only if configured

            reporter = CloudReporter(
                around.bus,
                around.status,
                options.url,
                lambda: _reachable(around.address()),
                access=access,
                clock=RealClock(),
            )
            supervisor.start(reporter.node.name, reporter.run)
        yield


def _reachable(address: str) -> str:
    """The address of an API that listens everywhere, with the name of this machine."""
    for everywhere in ("//0.0.0.0:", "//[::]:"):
        address = address.replace(everywhere, f"//{platform.node()}:")
    return address
