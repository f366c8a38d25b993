"""Where documents of openag_brain come from: a CouchDB from 1.x on, or a file with a dump of a database."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd.runtime.files import EncodingError, decoded
from growd.store.errors import CouchAnswerTooLargeError, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path
    from typing import TextIO

    from growd.store.couch import Couch

DATABASES: Final = ("environment", "recipes", "environmental_data_point")
_TOGETHER: Final = 500
_MOST_WHOLE: Final = 256 << 20  # characters of a dump that does not have one document in each line


class SourceError(StoreError):
    """The documents can't be read; the message says why."""


class SourcePage(NamedTuple):
    """Documents, and the name of their database, "" if it is not known."""

    database: str
    documents: list[Any]


async def of_couchdb(couch: Couch) -> AsyncGenerator[SourcePage]:
    """The documents of all databases that there are. Raises `SourceError` and `CouchError`.

    Only by `_all_docs`, which CouchDB has in all versions.
    """
    found = [database for database in DATABASES if await couch.exists(database)]
    if not found:
        raise SourceError(f"the CouchDB has none of the databases {', '.join(DATABASES)}")
    for database in found:
        after, asked, is_last = "", _TOGETHER, False
        while not is_last:
            start = {"startkey": after} if after else {}
            try:
                rows = await couch.all_docs(database, include_docs=True, limit=asked + 1, **start)
            except CouchAnswerTooLargeError:
                if asked == 1:
                    raise
                asked = max(1, asked // 8)
                continue
            if not all(isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows):
                raise SourceError(f"{database} of the CouchDB has rows without an id")
            is_last = len(rows) <= asked
            if not is_last and rows[-1]["id"] <= after:
                raise SourceError(f"{database} of the CouchDB repeats rows, after the id {after}")
            found = [row["doc"] for row in rows if row["id"] != after and row.get("doc")]
            after = rows[-1]["id"] if rows else after
            yield SourcePage(database, found)


async def of_file(path: Path) -> AsyncGenerator[SourcePage]:
    """The documents of a dump: the answer of `_all_docs?include_docs=true`, or one in each line.

    Raises `SourceError`.
    """
    try:
        file = await asyncio.to_thread(path.open, encoding="utf-8-sig")
        with file:
            pages = _pages(file)
            while page := await asyncio.to_thread(next, pages, None):
                yield SourcePage("", page)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else EncodingError(error.object)
        raise SourceError(f"{path} can't be read: {why}") from None
    except EncodingError as error:
        raise SourceError(f"{path} can't be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is neither JSON nor JSON lines: {error}") from None


def _pages(file: TextIO) -> Iterator[list[Any]]:
    page = []
    for document in _documents(file):
        page.append(document)
        if len(page) == _TOGETHER:
            yield page
            page = []
    if page:
        yield page


def _documents(file: TextIO) -> Iterator[Any]:
    first = next((line for line in file if line.strip()), "")
    decoded(first.encode())  # UTF-16 without a mark
    is_answer = first.rstrip().endswith("[")
    try:
        whole = None if is_answer else json.loads(first)
    except ValueError:
        yield from _of_whole(json.loads(first + file.read(_MOST_WHOLE)))
        return
    if not is_answer:
        yield from _of_whole(whole)
    for line in file:
        text = line.strip().rstrip(",")
        if text and text not in {"]", "]}"}:
            try:
                yield _document_of(json.loads(text))
            except (ValueError, RecursionError):
                yield text  # which is rejected


def _of_whole(value: Any) -> Iterator[Any]:
    """The documents in an answer, in a list, or the one that it is."""
    if isinstance(value, dict) and "_id" not in value:
        value = value.get("rows", value.get("docs", [value]))
    yield from map(_document_of, value if isinstance(value, list) else [value])


def _document_of(value: Any) -> Any:
    """The document in a row of `_all_docs`."""
    is_row = isinstance(value, dict) and "doc" in value and "_id" not in value
    return value["doc"] if is_row else value
