"""A small HTTP client for Apache CouchDB 3.5 (https://docs.couchdb.org/en/3.5.x/api/) and PouchDB Server."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import aiohttp
from yarl import URL

from growd.store.attachments import Attachment, Content, related
from growd.store.couch_answers import checked, unavailable_as
from growd.store.encoding import to_json
from growd.store.errors import CouchAnswerTooLargeError, CouchRefusedError, CouchUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

Document = dict[str, Any]

_OK: Final = 200
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_EXISTS: Final = 412
_CHUNK: Final = 64 * 1024
_KEYS: Final = frozenset({"key", "keys", "startkey", "endkey"})
_SETTINGS: Final = ("_node", "_local", "_config")
_UPLOAD_S: Final = 600.0  # for attachments


class Couch:
    """A client of one database server.

    `base_url` is an address, or a callable that gives the present one (None while the server restarts).
    `credentials` are sent as Basic (RFC 7617), or else those in the address (`http://user:password@host`),
    which are never shown. `heard` gets after each request for JSON whether there was an answer; `waiting` is
    entered around each, and may end it with TimeoutError. Every call raises `CouchUnavailableError` (no
    complete answer, 408, 429, 5xx) or `CouchRefusedError` (other answers that are not 2xx).
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str | Callable[[], str | None],
        *,
        credentials: tuple[str, str] | None = None,
        timeout: float = 60.0,
        max_answer: int = 32 * 1024 * 1024,
        heard: Callable[[bool], None] = lambda _: None,
        waiting: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._session = session
        self._base_url = base_url
        self._credentials = credentials
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=min(timeout, 10.0))
        self._max_answer = max_answer
        self._heard = heard
        self._waiting = waiting

    async def server(self) -> Document:
        """GET /: vendor and version (docs.couchdb.org/en/3.5.x/api/server/common.html)."""
        return as_object(await self.request("GET", "/"))

    async def exists(self, database: str) -> bool:
        """GET /{db}: whether this database exists."""
        return await self.info(database) is not None

    async def info(self, database: str) -> Document | None:
        """GET /{db}: its size and shards, None if there is no such database."""
        return await self._found(path_of(database))

    async def create(self, database: str, **query: Any) -> bool:
        """PUT /{db}: True if it was made, False if it existed. `query` are `partitioned` and `q` (shards)."""
        try:
            await self.request("PUT", path_of(database), query=query)
        except CouchRefusedError as error:
            if error.status == _EXISTS:
                return False
            raise
        return True

    async def delete(self, database: str) -> None:
        """DELETE /{db}."""
        await self.request("DELETE", path_of(database))

    async def get(self, database: str, document_id: str, **query: Any) -> Document | None:
        """GET /{db}/{docid}: the document, or None if there is none."""
        return await self._found(path_of(database, document_id), query)

    async def put(self, database: str, document: Document) -> str | None:
        """PUT /{db}/{docid}: the new revision, or None for a conflict (409)."""
        return await _revision(self.request("PUT", path_of(database, document["_id"]), body=document))

    async def put_whole(
        self, database: str, document: Document, attachments: Sequence[Attachment]
    ) -> str | None:
        """PUT /{db}/{docid}: a new document with its attachments in one revision; None for a conflict."""
        if not attachments:
            return await self.put(database, document)
        follow = {
            each.name: {"follows": True, "content_type": each.media, "length": each.size}
            for each in attachments
        }
        contents = [(each.size, each.pieces()) for each in attachments]
        content = related({**document, "_attachments": follow}, contents)
        return await _revision(self.put_content(path_of(database, document["_id"]), content, {}))

    async def put_attachment(
        self, database: str, document_id: str, revision: str, attachment: Attachment
    ) -> str | None:
        """PUT /{db}/{docid}/{attname}: the new revision, or None for a conflict (409)."""
        content = Content(attachment.media, attachment.size, attachment.pieces())
        path = path_of(database, document_id, attachment.name)
        return await _revision(self.put_content(path, content, {"rev": revision}))

    async def bulk_docs(self, database: str, documents: Sequence[Document]) -> dict[str, Document]:
        """POST /{db}/_bulk_docs: the outcome of each document, by `_id`, since servers differ in the order.

        An outcome has `ok` and `rev`, or `error` and `reason`. An answer that lacks an outcome is an error.
        """
        answer = await self.request("POST", path_of(database, "_bulk_docs"), body={"docs": list(documents)})
        rows = answer if isinstance(answer, list) else []
        outcomes = {row["id"]: row for row in rows if isinstance(row, dict) and "id" in row}
        missing = [document["_id"] for document in documents if document["_id"] not in outcomes]
        if missing:
            raise CouchUnavailableError(f"the database's answer has no outcome for {len(missing)} documents")
        return outcomes

    async def view(self, database: str, design: str, view: str, **query: Any) -> list[Document]:
        """GET /{db}/_design/{ddoc}/_view/{view}: its rows. Query values are sent as JSON."""
        path = path_of(database, f"_design/{design}", "_view", view)
        return _rows(await self.request("GET", path, query=query))

    async def all_docs(self, database: str, **query: Any) -> list[Document]:
        """GET /{db}/_all_docs: its rows. Query values are sent as JSON."""
        return _rows(await self.request("GET", path_of(database, "_all_docs"), query=query))

    async def documents(self, database: str, ids: Sequence[str]) -> dict[str, Document]:
        """POST /{db}/_all_docs: those of these documents that there are, by `_id`."""
        path, query = path_of(database, "_all_docs"), {"include_docs": True}
        rows = _rows(await self.request("POST", path, query=query, body={"keys": list(ids)}))
        found = (row.get("doc") for row in rows)
        return {document["_id"]: document for document in found if document and "_deleted" not in document}

    async def rows_of(self, database: str, ids: Sequence[str]) -> list[Document]:
        """POST /{db}/_all_docs: the rows of these documents, also of deleted and missing ones."""
        return _rows(await self.request("POST", path_of(database, "_all_docs"), body={"keys": list(ids)}))

    async def purge(self, database: str, revisions: Mapping[str, Sequence[str]]) -> None:
        """POST /{db}/_purge: remove these leaf revisions for good; 100 documents at most."""
        await self.request("POST", path_of(database, "_purge"), body=revisions)

    async def check_room(self, database: str) -> None:
        """Write what is there already: `DiskFullError`, which no answer about documents says."""
        path = path_of(database, "_revs_limit")
        with contextlib.suppress(CouchRefusedError):  # administrators only
            await self.request("PUT", path, body=await self.request("GET", path))

    async def compact(self, database: str, design: str = "") -> None:
        """POST /{db}/_compact or /{db}/_compact/{ddoc}: start a compaction, of the indexes of a design."""
        await self.request("POST", path_of(database, "_compact", *([design] if design else [])), body={})

    async def changes(
        self,
        database: str,
        since: Any,
        limit: int,
        selector: Document | None = None,
        *,
        all_leaves: bool = False,
        include_docs: bool = False,
    ) -> Document:
        """The first `limit` changes after `since`, as `results`, `last_seq` and `pending`.

        With a selector (of `_find`) those that it matches; `pending` counts all that come after the last.
        With `all_leaves` each has the revisions of all branches, not only of the winner.
        """
        query = {"since": since if isinstance(since, str) else json.dumps(since), "limit": limit}
        if all_leaves:
            query["style"] = "all_docs"
        if include_docs:
            query["include_docs"] = True
        path = path_of(database, "_changes")
        if selector is None:
            return as_object(await self.request("GET", path, query=query))
        query["filter"] = "_selector"
        return as_object(await self.request("POST", path, query=query, body={"selector": selector}))

    async def attachment(
        self, database: str, document_id: str, revision: str, name: str
    ) -> AsyncGenerator[bytes]:
        """GET /{db}/{docid}/{attachment}: its content, in pieces."""
        path = path_of(database, document_id, name)
        url, headers = self._target(path, {"rev": revision})
        timeout = aiohttp.ClientTimeout(total=None, connect=10.0, sock_read=self._timeout.total)
        with unavailable_as(f"GET {path}", self._timeout.total):
            async with self._session.get(
                url, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != _OK:
                    checked(f"GET {path}", response.status, await self._read(response))
                async for chunk in response.content.iter_chunked(_CHUNK):
                    yield chunk

    async def security(self, database: str) -> Document:
        """GET /{db}/_security: who may read and write it."""
        return as_object(await self.request("GET", path_of(database, "_security")))

    async def put_security(self, database: str, security: Document) -> None:
        """PUT /{db}/_security."""
        await self.request("PUT", path_of(database, "_security"), body=security)

    async def changed(self, database: str, since: Any, ids: Sequence[str]) -> list[Document]:
        """Those of these documents that changed after `since`."""
        query = {"since": since if isinstance(since, str) else json.dumps(since), "filter": "_doc_ids"}
        path = path_of(database, "_changes")
        answer = as_object(await self.request("POST", path, query=query, body={"doc_ids": list(ids)}))
        return list(answer["results"])

    async def scheduled(self, document_id: str) -> Document | None:
        """GET /_scheduler/docs/_replicator/{docid}: its state; None if it is unknown yet."""
        return await self._found(path_of("_scheduler", "docs", "_replicator", document_id))

    async def active_tasks(self) -> list[Document]:
        """GET /_active_tasks: what the server does in the background."""
        answer = await self.request("GET", "/_active_tasks")
        return [task for task in answer if isinstance(task, dict)] if isinstance(answer, list) else []

    async def index_info(self, database: str, design: str) -> Document:
        """GET /{db}/_design/{ddoc}/_info: the state of the index of a design document."""
        return as_object(await self.request("GET", path_of(database, f"_design/{design}", "_info")))

    async def settings(self) -> dict[str, dict[str, str]]:
        """All settings of the server's node, by section."""
        return as_object(await self.request("GET", path_of(*_SETTINGS)))

    async def setting(self, section: str, key: str) -> str | None:
        """A setting of the server's node; None if it is not set."""
        try:
            return str(await self.request("GET", path_of(*_SETTINGS, section, key)))
        except CouchRefusedError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def change_setting(self, section: str, key: str, value: str) -> None:
        """Change a setting at once, and for the next start of the server."""
        await self.request("PUT", path_of(*_SETTINGS, section, key), body=value)

    async def send(
        self,
        method: str,
        segments: Sequence[str],
        body: bytes | None = None,
        *,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, bytes]:
        """The status and the body of any answer, for a caller that distinguishes statuses; `body` is JSON."""
        return await self._send(method, path_of(*segments), query or {}, body)

    async def send_stream(
        self, segments: Sequence[str], headers: Mapping[str, str], body: AsyncIterable[bytes]
    ) -> tuple[int, bytes]:
        """PUT a body as it comes, with `new_edits` off: the status and the body of the answer."""
        return await self._put_stream(path_of(*segments), {"new_edits": False}, headers, body)

    async def _found(self, path: str, query: Mapping[str, Any] | None = None) -> Document | None:
        """GET an object; None if there is none (404)."""
        try:
            return as_object(await self.request("GET", path, query=query))
        except CouchRefusedError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        """The answer to a request; both are JSON."""
        data = None
        if body is not None:
            data = to_json(body).encode()
        status, answer = await self._send(method, path, query or {}, data)
        return checked(f"{method} {path}", status, answer)

    async def _send(
        self, method: str, path: str, query: Mapping[str, Any], data: bytes | None
    ) -> tuple[int, bytes]:
        url, headers = self._target(path, query)
        headers["Accept"] = "application/json"
        if data is not None:
            headers["Content-Type"] = "application/json"
        options: Any = {"headers": headers, "timeout": self._timeout, "allow_redirects": False}
        try:
            with unavailable_as(f"{method} {path}", self._timeout.total):
                async with (
                    self._waiting(),
                    self._session.request(method, url, data=data, **options) as response,
                ):
                    answer = response.status, await self._read(response)
        except CouchUnavailableError as error:
            self._heard(isinstance(error, CouchAnswerTooLargeError))
            self._target(path, query)  # raises why, if it is down by now
            raise
        self._heard(True)
        return answer

    async def put_content(self, path: str, content: Content, query: Mapping[str, Any]) -> Any:
        """PUT a body as it is read; the answer is JSON."""
        headers = {"Content-Type": content.media, "Content-Length": str(content.size)}
        status, answer = await self._put_stream(path, query, headers, content.pieces)
        return checked(f"PUT {path}", status, answer)

    async def _put_stream(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str], body: AsyncIterable[bytes]
    ) -> tuple[int, bytes]:
        url, own = self._target(path, query)
        timeout = aiohttp.ClientTimeout(total=_UPLOAD_S, connect=self._timeout.connect)
        with unavailable_as(f"PUT {path}", _UPLOAD_S):
            async with self._session.put(
                url, data=body, headers={**own, **headers}, timeout=timeout, allow_redirects=False
            ) as response:
                return response.status, await self._read(response)

    def _target(self, path: str, query: Mapping[str, Any]) -> tuple[URL, dict[str, str]]:
        """The address of a request, and its login."""
        base = self._base_url() if callable(self._base_url) else self._base_url
        if base is None:
            raise CouchUnavailableError("no database is running")
        url = URL(base)
        credentials = self._credentials
        if credentials is None and url.user is not None:
            credentials = (url.user, url.password or "")
        parts = urlsplit(str(url.with_user(None)))
        text = "&".join(f"{name}={quote(_query_text(name, value), safe='')}" for name, value in query.items())
        whole = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, text, ""))
        headers = {"Authorization": aiohttp.encode_basic_auth(*credentials)} if credentials else {}
        return URL(whole, encoded=True), headers

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        parts = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            parts += chunk
            if len(parts) > self._max_answer:
                raise CouchAnswerTooLargeError(
                    f"the database's answer is larger than {self._max_answer} bytes"
                )
        return bytes(parts)


async def _revision(request: Awaitable[Any]) -> str | None:
    """The new revision, or None for a conflict (409)."""
    try:
        return str(as_object(await request).get("rev", ""))
    except CouchRefusedError as error:
        if error.status == _CONFLICT:
            return None
        raise


def path_of(database: str, *segments: str) -> str:
    """`/database/segment/...`, each encoded, except for the slash after `_design` or `_local`."""
    parts = [quote(database, safe="")]
    for segment in segments:
        head, slash, rest = segment.partition("/")
        if slash and head in {"_design", "_local"}:
            parts += [head, quote(rest, safe="")]
        else:
            parts.append(quote(segment, safe=""))
    return "/" + "/".join(parts)


def _query_text(name: str, value: Any) -> str:
    """JSON; words such as `update_after`, which are no keys, stay as they are."""
    if isinstance(value, str) and name not in _KEYS:
        return value
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def as_object(answer: Any) -> Document:
    """The answer, if it is a JSON object. Raises `CouchUnavailableError`."""
    if not isinstance(answer, dict):
        raise CouchUnavailableError("the database's answer is not the JSON object that was expected")
    return answer


def _rows(answer: Any) -> list[Document]:
    rows = as_object(answer).get("rows")
    if not isinstance(rows, list):
        raise CouchUnavailableError("the database's answer has no rows")
    return rows
