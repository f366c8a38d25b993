"""The part of a running daemon that sends reports of this device to its cloud."""

from __future__ import annotations

import contextlib
import platform
from typing import TYPE_CHECKING

from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.parts import Surroundings


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Report to the server of [replication] for the body, if there is one."""
    url = around.present().replication.url
    if not url:
        yield
        return
    from growd_cloud.reporter import CloudReporter  # noqa: PLC0415  imported only if configured

    reporter = CloudReporter(
        around.bus,
        around.status,
        url,
        lambda: _reachable(around.address()),
        credentials=around.cloud_login,
        trust=around.cloud_trust,
        clock=RealClock(),
    )
    async with Supervisor(RealClock(), around.bus.liveness) as supervisor:
        supervisor.start(reporter.node.name, reporter.run)
        yield


def _reachable(address: str) -> str:
    """The address of an API that listens everywhere, with the name of this machine."""
    for everywhere in ("//0.0.0.0:", "//[::]:"):
        address = address.replace(everywhere, f"//{platform.node()}:")
    return address
