"""The part of a running daemon that serves rosbridge, for pages made with roslibjs."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from growd.api.operations import Api
    from growd.parts import Surroundings


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Serve rosbridge for the body."""
    add_rosbridge(around.api)
    yield


def add_rosbridge(api: Api) -> None:
    """Serve rosbridge beside `api`."""
    api.pages[f"{api.root}/rosbridge"] = partial(_serve, api)


async def _serve(api: Api, request: web.BaseRequest) -> web.StreamResponse:
    from growd_home.rosbridge import serve_rosbridge  # noqa: PLC0415  most growds never need it

    return await serve_rosbridge(api, request)
