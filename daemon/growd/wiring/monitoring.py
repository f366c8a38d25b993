"""What whoever watches growd is told: the nodes `status`, `machine` and `database`, and three pages."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from growd.api.monitoring import OperationalPages
from growd.host.machine import Machine
from growd.status.overview import Overview
from growd.store.database_node import DatabaseNode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from growd.api.rest import Api
    from growd.bus import Bus
    from growd.server.server import Server
    from growd.status.model import Status
    from growd.store.database import Database


class Operations:
    """All of it, of one daemon; `data` is its folder."""

    def __init__(
        self,
        bus: Bus,
        environments: Collection[str],
        data: Path,
        database: Database,
        is_losing: Callable[[], bool] = lambda: False,
    ) -> None:
        self._bus = bus
        self._is_losing = is_losing  # points, at present
        self._machine = Machine(bus, data)
        self._overview = Overview(bus, environments)
        self._rendering = asyncio.Lock()  # one at a time: it is work, and nobody needs it twice
        self._not_ready = "starting"
        self._server: Server | None = None
        self._api: Api | None = None
        DatabaseNode(bus, database)

    async def close(self) -> None:
        """Look at nothing any more."""
        await self._machine.close()

    def open(self, server: Server, api: Api) -> None:
        """Answer the pages, from the figures of this front door."""
        self._server, self._api = server, api
        OperationalPages(self).open(api)

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """All has started, and runs until the end of the body."""
        self._not_ready = ""
        yield
        self._not_ready = "stopping"

    def why_not_ready(self) -> str:
        """Empty from when the outputs are claimed until growd is asked to end.

        The database does not matter: points wait for it, and all else goes on without.
        """
        return self._not_ready

    def why_unwell(self) -> str:
        """Whether a loop has not advanced for too long, a component keeps failing, or points are being lost.

        The log and `growd status` say which; strangers may ask here.
        """
        if self._bus.liveness.stuck():
            return "stuck"
        if self._bus.liveness.failing():
            return "failing"
        return "losing points" if self._is_losing() else ""

    def failures(self) -> list[str]:
        """What has failed, in the sentences of `growd status`."""
        return self._overview.status().failures

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """All figures as text, in a format that `accept` (the header) takes, and its content type."""
        async with self._rendering:
            await self._overview.prepare()
            return await asyncio.to_thread(_render, self._overview.status(), self._http(), accept)

    def _http(self) -> tuple[dict[int, int], int, int]:
        if self._server is None or self._api is None:
            return {}, 0, 0
        return {**self._server.answered}, self._server.connections, len(self._api.streams)


def _render(status: Status, http: tuple[dict[int, int], int, int], accept: str) -> tuple[bytes, str]:
    from growd.status.metrics import HttpFigures, render  # noqa: PLC0415  a tenth of a second that few need

    return render(status, HttpFigures(*http), accept)
