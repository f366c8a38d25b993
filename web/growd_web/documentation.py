"""The documentation at `<root>/docs/`: the Markdown files that growd brings along, as pages."""

from __future__ import annotations

import asyncio
import hashlib
import html
import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from aiohttp import hdrs, web

from growd.bus.errors import shown
from growd.server.errors import ApiError
from growd_web.served_page import POLICY, TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from markdown_it.token import Token

    from growd_web.served_page import ServedPage

TEMPLATE: Final = "docs.html"
_SHOWN: Final = {".md": ".html", ".svg": ".svg", ".png": ".png"}
_PLAIN: Final = "text/plain; charset=utf-8"  # of all else: examples are shown, never run
_ELSEWHERE: Final = re.compile(r"[a-z]+:|#")
_ALIGNED: Final = re.compile(r"text-align:(\w+)")
_NOT_IN_IDS: Final = re.compile(r"[^\w\- ]")


async def documentation_file(
    folder: Path, served: ServedPage, path: str, request: web.BaseRequest
) -> web.StreamResponse:
    """The page or picture at a path beneath the folder; 404 if there is none.

    All may read them, like those of the page: they hold no data.
    """
    template = await served.text(TEMPLATE)
    content = await asyncio.to_thread(_read, folder, path, template)
    if content is None:
        raise ApiError(404, "not_found", f"the documentation has no page {shown(path)}")
    suffix = PurePosixPath(path).suffix
    return _answer(request, content, TYPES.get(_SHOWN.get(suffix, ""), _PLAIN))


def _read(folder: Path, path: str, template: bytes) -> bytes | None:
    """A file as it is sent. Blocking."""
    found = (each for each in folder.rglob("*") if each.is_file())
    files = {each.relative_to(folder).as_posix(): each for each in found}
    if path not in files:
        return None
    content = files[path].read_bytes()
    return _page(content, template, frozenset(files)) if path.endswith(".md") else content


@lru_cache(maxsize=8)
def _page(source: bytes, template: bytes, names: frozenset[str]) -> bytes:
    """The page of a Markdown file. Blocking: a long one takes half a second on a Raspberry Pi."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  few read the documentation

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(source.decode())
    titles = [_marked(each, tokens[at + 1]) for at, each in enumerate(tokens) if each.tag in _HEADINGS]
    for token in tokens:
        _align(token)
        _link(token.children or (), names)
    text = reader.renderer.render(tokens, reader.options, {})
    title = html.escape(next(filter(None, titles), ""))
    return template.replace(b"{title}", title.encode()).replace(b"{text}", text.encode())


_HEADINGS: Final = ("h1", "h2", "h3", "h4")


def _marked(heading: Token, content: Token) -> str:
    """Give a heading the id that links to it have, and return its words."""
    if heading.nesting != 1:
        return ""
    words = "".join(each.content for each in content.children or ())
    heading.attrSet("id", _NOT_IN_IDS.sub("", words.lower()).replace(" ", "-"))
    return words


def _align(token: Token) -> None:
    """Align the cells of a column by a class: the policy of the page forbids styles in its text."""
    if found := _ALIGNED.match(str(token.attrs.pop("style", ""))):
        token.attrSet("class", found[1])


def _link(tokens: Iterable[Token], names: frozenset[str]) -> None:
    """Leave the words of links to files that are not here, such as the source, and of such pictures."""
    ends: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrs["href"])
            ends.append(bool(_ELSEWHERE.match(target)) or target.partition("#")[0] in names)
            token.hidden = not ends[-1]
        elif token.type == "link_close":
            token.hidden = not ends.pop()
        elif token.type == "image" and token.attrs["src"] not in names:
            token.type = "text"  # a wheel has no pictures
        if token.hidden:
            token.tag = "span"
            token.attrs.clear()


def _answer(request: web.BaseRequest, content: bytes, kind: str) -> web.StreamResponse:
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers: dict[str, Any] = {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        hdrs.CACHE_CONTROL: "no-cache",
        hdrs.ETAG: tag,
    }
    if tag in request.headers.get(hdrs.IF_NONE_MATCH, ""):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=content, headers=headers | {hdrs.CONTENT_TYPE: kind})
    response.enable_compression()
    return response
