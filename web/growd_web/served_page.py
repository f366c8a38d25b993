"""The files of a page, for growd and for the receiver of a fleet.

A file's address has a digest of all files: browsers keep them for ever and never mix two versions.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from errno import ENOENT
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from growd.bus.errors import shown
from growd.runtime.npm import npm_command
from growd.server.client_request import weights
from growd.server.errors import ApiError
from growd_web.joined_modules import joined

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
"""Files of the page by suffix. Others in its folder are not served."""
POLICY: Final = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
"""What pages may load (Content Security Policy)."""

_API_POLICY: Final = f"{POLICY}; style-src 'self' 'unsafe-inline'"  # RapiDoc writes style elements
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_RAPIDOC: Final = "vendor/rapidoc.js"  # a wheel does not have it
_DOCUMENTS: Final = {"index.html": POLICY, "api.html": _API_POLICY, "fleet.html": POLICY, "worker.js": POLICY}
_ENTRIES: Final = ("main.js", "fleet.js")
"""Modules with which a page begins. They are joined with those that they import."""
_ALONE: Final = ("vendor/", "texts/", "api.js", "worker.js", *_ENTRIES)
"""Modules that are files of their own."""
_REFERENCE: Final = re.compile(rb'(\b(?:src|href)="(?:\.\./)?page/)')
_MAP: Final = re.compile(rb"\n//# sourceMappingURL=\S*\s*$")
_BLOCK: Final = re.compile(rb"^[ \t]*/\*.*?\*/[ \t]*$", re.DOTALL | re.MULTILINE)
_REMARK: Final = re.compile(rb"(?:^|[ \t])//[ \t][^`\"'\n]*$", re.MULTILINE)
_INDENT: Final = re.compile(rb"^\s+", re.MULTILINE)


@dataclass(frozen=True)
class PageFile:
    """A file as it is sent."""

    content: bytes
    content_type: str

    @cached_property
    def compressed(self) -> bytes:
        """Compressed with gzip. Takes up to 50 ms on a Raspberry Pi for a large library."""
        return gzip.compress(self.content, 9, mtime=0)


@dataclass(frozen=True)
class PageEdition:
    """All files of the page at one time, by their names, and the digest of them."""

    files: dict[str, PageFile]
    digest: str
    state: frozenset[tuple[str, int, int]]
    """Names, times and sizes in the folder, to notice that a file was edited."""


class ServedPage:
    """Answers from the files in `folder`, which are read at the first request.

    In a checkout (`is_edited`) they are read again when one has changed.
    """

    def __init__(self, folder: Path, *, is_edited: bool) -> None:
        self._folder = folder
        self._is_edited = is_edited
        self._edition: PageEdition | None = None
        self._reading = asyncio.Lock()

    async def document(self, name: str, request: web.BaseRequest) -> web.StreamResponse:
        """A page such as "index.html", or its service worker; 503 if files are missing."""
        try:
            edition = await self._read(fresh=self._is_edited or name == "api.html")
            if name == "api.html" and _RAPIDOC not in edition.files:
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT), _RAPIDOC)
        except OSError as error:
            sentence = (
                f"The page can't be shown: {error.filename}: {error.strerror}.\n"
                f"Run {npm_command(self._folder)}. All else of growd works without it.\n"
            )
            return web.Response(text=sentence, status=503)
        except ValueError as error:
            return web.Response(text=f"The page can't be shown: {error}.\n", status=503)
        headers = {"Content-Security-Policy": _DOCUMENTS[name], hdrs.CACHE_CONTROL: "no-cache"}
        return await _answer(request, edition, name, headers)

    async def text(self, name: str) -> bytes:
        """A page such as "docs.html", for others to fill in. Raises `ApiError` if it is missing."""
        with suppress(OSError, KeyError):
            return (await self._read(fresh=self._is_edited)).files[name].content
        raise ApiError(404, "not_found", f"the page has no file {shown(name)}")

    async def file(self, path: str, request: web.BaseRequest) -> web.StreamResponse:
        """The file at a path such as "<digest>/main.js"."""
        digest, _, name = path.partition("/")
        with suppress(OSError):
            edition = await self._read()
            if digest == edition.digest and name in edition.files.keys() - _DOCUMENTS.keys():
                return await _answer(request, edition, name, {hdrs.CACHE_CONTROL: _FOR_EVER})
        raise ApiError(404, "not_found", f"the page has no file {shown(path)}; load the page again")

    async def _read(self, *, fresh: bool = False) -> PageEdition:
        """The files, read again with `fresh` if one has changed. Raises OSError if one is missing."""
        async with self._reading:
            if self._edition is None or fresh:
                self._edition = await asyncio.to_thread(read_page, self._folder, self._edition)
            return self._edition


def read_page(folder: Path, known: PageEdition | None = None) -> PageEdition:
    """The files in `folder`; the `known` ones if they are the same.

    Raises OSError if one is missing, and ValueError if modules cannot be joined.
    """
    sources = dict(_sources(folder))
    times = {name: path.stat() for name, path in sources.items()}
    state = frozenset((name, stat.st_mtime_ns, stat.st_size) for name, stat in times.items())
    if known is not None and known.state == state:
        return known
    contents = _joined({name: _as_sent(name, path.read_bytes()) for name, path in sources.items()})
    whole = hashlib.sha256()
    for name, content in sorted(contents.items()):
        whole.update(f"{name}\0{len(content)}\0".encode() + content)
    digest = whole.hexdigest()[:16]
    for name, content in contents.items():
        if name.endswith(".html"):
            contents[name] = _REFERENCE.sub(rb"\g<1>" + digest.encode() + b"/", content)
    files = {name: PageFile(content, TYPES[PurePosixPath(name).suffix]) for name, content in contents.items()}
    return PageEdition(files, digest, state)


def _sources(folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and paths: the page's own files, and those of libraries that package.json names."""
    for name in _DOCUMENTS:
        yield name, folder / name
    for top in folder.iterdir():
        if top.name != "node_modules":
            for path in (top, *top.rglob("*")):
                if path.suffix in TYPES and not path.name.startswith("."):  # editors make such
                    yield path.relative_to(folder).as_posix(), path
    vendor = json.loads((folder / "package.json").read_bytes())["vendor"]
    for name, path in vendor.items():
        file = folder / "node_modules" / path
        if f"vendor/{name}" != _RAPIDOC or file.exists():
            yield f"vendor/{name}", file


def _joined(contents: dict[str, bytes]) -> dict[str, bytes]:
    """The files with joined modules in the place of single ones."""
    modules = {name: content.decode() for name, content in contents.items() if name.endswith(".js")}
    files = {name: content for name, content in contents.items() if not _is_joined(name)}
    for entry in filter(contents.__contains__, _ENTRIES):
        files |= {name: text.encode() for name, text in joined(modules, entry).items()}
    return files


def _is_joined(name: str) -> bool:
    return name.endswith(".js") and not name.startswith(_ALONE)


def _as_sent(name: str, content: bytes) -> bytes:
    if not name.startswith("vendor/"):
        return _without_remarks(content) if name.endswith((".js", ".css")) else content
    content = _MAP.sub(b"\n", content)  # the maps are not served
    # A browser finds a bare name through an import map only. That would be an inline script, which the page's
    # policy forbids.
    return content.replace(b'from"preact"', b'from"./preact.js"')


def _without_remarks(content: bytes) -> bytes:
    """A module or style sheet without most of its comments, empty lines and indentation.

    They are a seventh of what a browser loads. A comment with a quotation mark may be a text, and stays.
    """
    return _INDENT.sub(b"", _REMARK.sub(b"", _BLOCK.sub(b"", content)))


async def _answer(
    request: web.BaseRequest, edition: PageEdition, name: str, headers: dict[str, str]
) -> web.StreamResponse:
    """The file, compressed if the client accepts that, or 304 if it has it."""
    file, tag = edition.files[name], f'"{edition.digest}"'
    headers |= {hdrs.ETAG: f"W/{tag}", hdrs.VARY: hdrs.ACCEPT_ENCODING}  # weak: compressed or not
    if tag in request.headers.get(hdrs.IF_NONE_MATCH, ""):
        return web.Response(status=304, headers=headers)
    headers[hdrs.CONTENT_TYPE] = file.content_type
    if not weights(request.headers.get(hdrs.ACCEPT_ENCODING, "")).get("gzip"):
        return web.Response(body=file.content, headers=headers)
    body = await asyncio.to_thread(lambda: file.compressed)
    return web.Response(body=body, headers=headers | {hdrs.CONTENT_ENCODING: "gzip"})
