"""The page for people: `<root>/`, its files beneath `<root>/page/`, and the API page at `<root>/api/`.

The documentation is beneath `<root>/docs/`, see `documentation.py`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from growd.runtime.event_loop import load
from growd.runtime.npm import lacks_packages, npm_command
from growd.server.client_request import prefers_html
from growd.wiring.files import shipped_folder
from growd_web.served_page import ServedPage

if TYPE_CHECKING:
    from pathlib import Path

    from growd.api.operations import Api, Page

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
