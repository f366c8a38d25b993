"""The pages for programs that watch growd: `health` and `ready`, beside the API."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aiohttp import web

from growd.status.summary import health, readiness

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.api.api import Api
    from growd.api.front_door import FrontDoor
    from growd.status.model import Status
    from growd.status.status_node import StatusNode


def add_monitoring(api: Api, door: FrontDoor, status: StatusNode) -> None:
    """Answer `<root>/health` and `<root>/ready`, and add the counts of `door` and `api` to the status."""
    api.node.describe("http", partial(_http, api, door))
    for name, why_not in (("health", health), ("ready", readiness)):
        api.pages[f"{api.root}/{name}"] = partial(_answer, status, why_not)


def _http(api: Api, door: FrontDoor) -> dict[str, Any]:
    return {
        "answered": {f"{digit}xx": number for digit, number in door.answered.items()},
        "connections": door.connections,
        "streams": len(api.streams),
    }


async def _answer(
    status: StatusNode, why_not: Callable[[Status], str], _: web.BaseRequest
) -> web.StreamResponse:
    """200 and "ok", or 503 and the reason."""
    reason = why_not(status.snapshot())
    code = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
    return web.Response(text=f"{reason or 'ok'}\n", status=code)
