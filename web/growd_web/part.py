"""The part of a running daemon that shows the page, the documentation and the description of the API."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs, web

from growd.api.operation import Call, Operation
from growd.bus.fields import Field, Kind
from growd.runtime.event_loop import load
from growd.runtime.npm import lacks_packages, npm_command
from growd.server.client_request import prefers_html
from growd.server.json_answer import JsonAnswer
from growd.wiring.files import shipped_folder
from growd_web.served_page import ServedPage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from growd.api.api import Api, Page
    from growd.parts import Surroundings


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Serve them for the body."""
    folder, is_edited = await asyncio.to_thread(page_folder)
    docs, _ = await asyncio.to_thread(shipped_folder, "docs")
    PageFiles(around.api, folder, docs, is_edited=is_edited)
    around.api.offer(ApiDocument(around.api).operations)
    yield


_INDEX: Final = "README.md"
_log = logging.getLogger(__name__)


class PageFiles:
    """Serves the files in `folder` with `ServedPage`, and the documentation in `docs`.

    Programs get the API's links in place of a page.
    """

    def __init__(self, api: Api, folder: Path, docs: Path, *, is_edited: bool) -> None:
        self._docs = docs
        self._served = served = ServedPage(folder, is_edited=is_edited)
        root, prefix = api.root, api.prefix
        pages: dict[str, Page] = {
            root: _sent_to(f"{root[1:]}/"),  # relative, as a proxy may put growd beneath a path
            f"{root}/": partial(served.document, "index.html"),
            prefix: _sent_to("./"),
            f"{prefix}/": _sent_to("../"),
        }
        api.pages |= {path: _by_accept(page, api.pages[path]) for path, page in pages.items()}
        api.pages |= {f"{root}/api": _sent_to("api/"), f"{root}/api/": partial(served.document, "api.html")}
        api.pages[f"{root}/worker.js"] = partial(served.document, "worker.js")  # its scope is `root`
        api.folders[f"{root}/page/"] = served.file
        index = partial(self._document, _INDEX)
        api.pages |= {f"{root}/docs": _sent_to("docs/"), f"{root}/docs/": index}
        api.folders[f"{root}/docs/"] = self._document

    async def _document(self, path: str, request: web.BaseRequest) -> web.StreamResponse:
        await load("growd_web.documentation")
        from growd_web.documentation import documentation_file  # noqa: PLC0415  few read it

        return await documentation_file(self._docs, self._served, path, request)


def _sent_to(location: str) -> Page:
    async def send(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={hdrs.LOCATION: location})

    return send


def _by_accept(page: Page, links: Page) -> Page:
    async def choose(request: web.BaseRequest) -> web.StreamResponse:
        response = await (page if prefers_html(request) else links)(request)
        response.headers.add(hdrs.VARY, hdrs.ACCEPT)
        return response

    return choose


def page_folder() -> tuple[Path, bool]:
    """The folder of the page, as `shipped_folder` has it. Logs missing libraries. Blocking."""
    folder, is_edited = shipped_folder("page")
    if lacks_packages(folder):
        _log.warning("the page lacks its npm packages: run %s", npm_command(folder))
    return folder, is_edited


class ApiDocument:
    """Makes the OpenAPI document when it is asked for, and again after a change of what it describes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: dict[bool, bytes] = {}  # with this chamber's names, or without
        self._described = (-1, -1, -1)
        chamber = Field("chamber", Kind.BOOL, default=False, doc="with the names of this chamber")
        self.operations = (
            Operation("GET", "openapi.json", "", "This document", self.read, query=(chamber,)),
        )

    def document(self, *, chamber: bool = False) -> dict[str, Any]:
        """The document; with `chamber` also the paths of this chamber's services and topics."""
        from growd_web.openapi import document, secured  # noqa: PLC0415  only who asks for it needs it

        api = self._api
        described = document(api.operations, api.prefix, api.bus if chamber else None)
        return described if api.access is None else secured(described)

    async def read(self, api: Api, call: Call) -> web.StreamResponse:
        """The document as JSON."""
        await load("growd_web.openapi")
        now = (api.bus.topics.changes, api.bus.services.changes, len(api.operations))
        if self._described != now:
            self._made, self._described = {}, now
        chamber = call.query["chamber"]
        if chamber not in self._made:
            self._made[chamber] = msgspec.json.encode(self.document(chamber=chamber))
        return JsonAnswer(self._made[chamber])
