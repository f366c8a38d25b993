"""The pages for programs that watch growd: `metrics`, `health` and `ready`, beside the API."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aiohttp import web

from growd.status.summary import health, readiness

if TYPE_CHECKING:
    from growd.api.front_door import FrontDoor
    from growd.api.operations import Api
    from growd.status.model import Status
    from growd.status.status_node import StatusNode


class MonitoringPages:
    """Answers `<root>/metrics`, `<root>/health` and `<root>/ready` from the status of the daemon."""

    def __init__(self, status: StatusNode) -> None:
        self._status = status
        self._rendering = asyncio.Lock()  # one at a time, since each takes a thread and CPU time

    def open(self, api: Api, door: FrontDoor) -> None:
        """Answer these paths, and add the counts of `door` and `api` to the status."""
        api.node.describe("http", lambda: _http(api, door))
        api.pages |= {
            f"{api.root}/metrics": self._metrics,
            f"{api.root}/health": self._health,
            f"{api.root}/ready": self._ready,
        }

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        accept = request.headers.get("Accept", "")
        async with self._rendering:
            await self._status.look_up()
            body, content_type = await asyncio.to_thread(_render, self._status.snapshot(), accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _health(self, _: web.BaseRequest) -> web.StreamResponse:
        return _answer(health(self._status.snapshot()))

    async def _ready(self, _: web.BaseRequest) -> web.StreamResponse:
        return _answer(readiness(self._status.snapshot()))


def _http(api: Api, door: FrontDoor) -> dict[str, Any]:
    return {
        "answered": {f"{digit}xx": number for digit, number in door.answered.items()},
        "connections": door.connections,
        "streams": len(api.streams),
    }


def _render(status: Status, accept: str) -> tuple[bytes, str]:
    from growd.status.metrics import render  # noqa: PLC0415  takes 0.1 s to import

    return render(status, accept)


def _answer(reason: str) -> web.StreamResponse:
    """200 and "ok", or 503 and the reason."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
    return web.Response(text=f"{reason or 'ok'}\n", status=status)
