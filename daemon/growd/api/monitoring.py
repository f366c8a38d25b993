"""What programs that watch growd ask: `metrics`, `health` and `ready`, beside the API."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

if TYPE_CHECKING:
    from growd.api.rest import Api


class Operations(Protocol):
    """What is told there."""

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """All figures as text, in a format that `accept` (the header) takes, and its content type."""

    def why_unwell(self) -> str:
        """Why this process should be started anew; empty while it does its work."""

    def why_not_ready(self) -> str:
        """Why nobody should rely on growd yet or any more; empty while one may."""


class OperationalPages:
    """Answers `<root>/metrics`, `<root>/health` and `<root>/ready` from `operations`."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def open(self, api: Api) -> None:
        """Have the API answer these paths from now on."""
        api.pages |= {
            f"{api.root}/metrics": self._metrics,
            f"{api.root}/health": self._health,
            f"{api.root}/ready": self._ready,
        }

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        body, content_type = await self._operations.metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _health(self, _: web.BaseRequest) -> web.StreamResponse:
        return _told(self._operations.why_unwell())

    async def _ready(self, _: web.BaseRequest) -> web.StreamResponse:
        return _told(self._operations.why_not_ready())


def _told(why_not: str) -> web.StreamResponse:
    """200 and "ok", or 503 and why."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if why_not else HTTPStatus.OK
    return web.Response(text=f"{why_not or 'ok'}\n", status=status)
