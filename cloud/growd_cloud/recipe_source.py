"""The database `recipes` as devices read it: each only the recipes that are for it.

A recipe with the member `growd_for`, a list of device ids and `group:NAME`, is for those devices. Without it,
a recipe is for all.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from aiohttp import web

from growd.server.client_request import add_own_headers
from growd.server.errors import ApiError
from growd.server.json_answer import json_answer
from growd.store.couch_answers import checked
from growd.store.errors import CouchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from growd.runtime.clock import Clock
    from growd.server.client_request import ClientRequest
    from growd.store.couch import Couch, Document
    from growd_cloud.bodies import WantedRecipes
    from growd_cloud.devices import Fleet

    Check: TypeAlias = Callable[[], Awaitable[None]]

MEMBER: Final = "growd_for"
AT_ONCE: Final = 32  # requests to CouchDB
FEED_ROWS: Final = 500  # of a feed, read at once
RETRY_S: Final = 5.0
_POLL_S: Final = 45.0  # below the time limit of the client
_LONGEST_WAIT_S: Final = 600.0  # until a feed looks again, although nothing seems to have changed
_HEARTBEAT_S: Final = 60.0
_TIMEOUT_S: Final = 60.0
_ANSWERED: Final = ("since", "limit", "style", "seq_interval")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_FORMS: Final = {
    "since": re.compile(r'[\w",\[\]=.-]{1,8000}', re.ASCII),
    "limit": _NUMBER,
    "seq_interval": _NUMBER,
    "style": re.compile("main_only|all_docs"),
}
_OF_REVISIONS: Final = ("revs", "latest", "attachments")
_log = logging.getLogger(__name__)


class RecipeSource:
    """Answers what a replication reads of its source. Methods raise `CouchError` and `ApiError`.

    Feeds of devices are not feeds of CouchDB: `run` follows its changes once for all of them.
    """

    def __init__(self, couch: Couch, database: str, fleet: Fleet, clock: Clock) -> None:
        self.feeds = 0
        """How many are open."""
        self._couch = couch
        self._database = database
        self._fleet = fleet
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Wake the feeds at each change, until cancelled."""
        since: Any = "now"
        is_failing = False
        while True:
            try:
                answer = await self._longpoll(since)
            except CouchError as error:
                if not is_failing:
                    _log.warning("recipes: %s; devices learn of new ones late", error)
                is_failing = True
                await self._clock.sleep(RETRY_S)
                continue
            is_failing = False
            since = answer["last_seq"]
            if answer["results"]:
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()

    async def info(self, device: str) -> Document:
        """GET /recipes, without what is in it."""
        answer = await self._changes(device, {"since": "now", "limit": "1"})
        return {"doc_count": 0, "update_seq": answer["last_seq"]}

    async def changes(self, request: ClientRequest, device: str, still_allowed: Check) -> web.StreamResponse:
        """`_changes`: once, or as a feed that lasts until the device ends it, or `still_allowed` raises.

        No selector is used: growd's asks for what a device gets anyway, and others would run in CouchDB.
        """
        query = _checked_query(request.query)
        feed = query.get("feed", "normal")
        if feed == "normal":
            return json_answer(await self._changes(device, query))
        if feed not in {"continuous", "longpoll"}:
            raise ApiError(
                400, "bad_request", f"feed must be normal, longpoll or continuous, not {feed[:40]!r}"
            )
        changed = self._changed
        first = await self._changes(device, _paged(query))  # its errors still have a status
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        add_own_headers(request, answer.headers)
        await answer.prepare(request)
        self.feeds += 1
        try:
            follow = self._continuous if feed == "continuous" else self._once_changed
            with suppress(CouchError, ApiError, ConnectionError):  # the device asks again
                async for piece in follow(device, query, first, changed):
                    await still_allowed()
                    await answer.write(piece)
        finally:
            self.feeds -= 1
        return answer

    async def bulk_get(self, request: ClientRequest, device: str, wanted: WantedRecipes) -> Document:
        """`_bulk_get`, as if the recipes for others did not exist."""
        query = {name: request.query[name] for name in _OF_REVISIONS if name in request.query}
        groups = await self._fleet.groups(device)
        answer = await self._ask("POST", "_bulk_get", wanted, query)
        for result in answer["results"]:
            result["docs"] = [_unless_foreign(each, groups) for each in result["docs"]]
        found: Document = answer
        return found

    async def open_revs(self, request: ClientRequest, device: str, document_id: str) -> web.Response:
        """GET /recipes/ID?open_revs=: as `multipart/mixed`, as replications ask for it, or as JSON."""
        query = {name: request.query[name] for name in (*_OF_REVISIONS, "open_revs") if name in request.query}
        if document_id.startswith("_") or "open_revs" not in query:
            raise ApiError(403, "forbidden", "devices read recipes by replication")
        groups = await self._fleet.groups(device)
        rows = [_unless_foreign(row, groups) for row in await self._ask("GET", document_id, None, query)]
        rows = [row if "ok" in row else {"missing": row.get("missing", "")} for row in rows]
        if "multipart/mixed" in request.headers.get("Accept", ""):
            return _multipart(rows)
        return web.Response(body=msgspec.json.encode(rows), content_type="application/json")

    async def _continuous(
        self,
        device: str,
        query: Mapping[str, str],
        answer: Document,
        changed: asyncio.Event,
    ) -> AsyncGenerator[bytes]:
        """A line for each change, and an empty one as a heartbeat."""
        while True:
            for row in answer["results"]:
                yield msgspec.json.encode(row) + b"\n"
            if not answer["results"]:
                async for beat in self._quiet(changed, query):
                    if not beat:
                        yield msgspec.json.encode({"last_seq": answer["last_seq"], "pending": 0}) + b"\n"
                        return
                    yield beat
            changed = self._changed  # before the question, whose answer may be older than a change
            answer = await self._changes(device, _paged(query, answer["last_seq"]))

    async def _once_changed(
        self,
        device: str,
        query: Mapping[str, str],
        answer: Document,
        changed: asyncio.Event,
    ) -> AsyncGenerator[bytes]:
        """One answer, when there are changes or the time is over."""
        while not answer["results"]:
            is_over = False
            async for beat in self._quiet(changed, query):
                is_over = not beat
                yield beat
            changed = self._changed
            answer = await self._changes(device, _paged(query, answer["last_seq"]))
            if is_over:
                break
        yield msgspec.json.encode(answer)

    async def _quiet(self, changed: asyncio.Event, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Heartbeats until something changed; b"" at the end if the feed should end instead."""
        beats = "heartbeat" in query
        interval = (
            _seconds(query, "heartbeat", _HEARTBEAT_S) if beats else _seconds(query, "timeout", _TIMEOUT_S)
        )
        waited = 0.0
        while waited < _LONGEST_WAIT_S:
            try:
                async with asyncio.timeout(interval):
                    await changed.wait()
            except TimeoutError:
                if not beats:
                    yield b""
                    return
                yield b"\n"
                waited += interval
            else:
                return

    async def _changes(self, device: str, query: Mapping[str, str]) -> Document:
        groups = await self._fleet.groups(device)
        mine = {"$or": [{MEMBER: {"$exists": False}}, {MEMBER: {"$elemMatch": {"$in": groups}}}]}
        own = {"_id": {"$regex": "^[^_]"}}  # design documents would run on the device
        body = {"selector": {"$and": [mine, own]}}
        kept = {name: query[name] for name in _ANSWERED if name in query} | {"filter": "_selector"}
        found: Document = await self._ask("POST", "_changes", body, kept)
        return found

    async def _longpoll(self, since: Any) -> Document:
        query = {"feed": "longpoll", "since": since, "timeout": int(_POLL_S * 1000)}
        status, answer = await self._couch.send("GET", (self._database, "_changes"), query=query)
        found: Document = checked("GET recipes/_changes", status, answer)
        return found

    async def _ask(self, method: str, what: str, body: Any, query: Mapping[str, Any]) -> Any:
        content = None if body is None else msgspec.json.encode(body)
        async with self._turns:
            status, answer = await self._couch.send(method, (self._database, what), content, query=query)
        if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND}:
            raise ApiError(status, "bad_request", f"CouchDB answers with {status} to {what[:80]}")
        return checked(f"{method} recipes/{what}", status, answer)


def _is_for(document: Mapping[str, Any], groups: list[str]) -> bool:
    """Whether a recipe is for a device with these `groups`: its id, and its group."""
    wanted = document.get(MEMBER)
    return wanted is None or (isinstance(wanted, list) and any(each in groups for each in wanted))


def _unless_foreign(row: Document, groups: list[str]) -> Document:
    """A row of `_bulk_get` or `open_revs`; that of another device's recipe says that it is missing."""
    document = row.get("ok")
    if document is None or _is_for(document, groups):
        return row
    document_id, revision = document["_id"], document["_rev"]
    error = {"id": document_id, "rev": revision, "error": "not_found", "reason": "missing"}
    return {"error": error, "missing": revision}


def _checked_query(query: Mapping[str, str]) -> dict[str, str]:
    """The query; CouchDB answers some wrong values as if it had failed itself. Raises `ApiError`."""
    for name, form in _FORMS.items():
        if name in query and not form.fullmatch(query[name]):
            raise ApiError(400, "bad_request", f"{name} must not be {query[name][:40]!r}")
    if query.get("filter", "_selector") != "_selector":
        raise ApiError(400, "bad_request", f"filter must be _selector, not {query['filter'][:40]!r}")
    return dict(query)


def _paged(query: Mapping[str, str], since: Any = None) -> dict[str, str]:
    limit = query.get("limit", "")
    rows = min(int(limit), FEED_ROWS) if limit.isdecimal() else FEED_ROWS
    later = {} if since is None else {"since": since if isinstance(since, str) else str(since)}
    return {**query, **later, "limit": str(max(rows, 1))}


def _seconds(query: Mapping[str, str], name: str, most: float) -> float:
    text = query.get(name, "")
    return min(max(int(text) / 1000, 1.0), most) if text.isdecimal() and len(text) < 10 else most  # noqa: PLR2004


def _multipart(rows: list[Document]) -> web.Response:
    boundary = secrets.token_hex(16)
    parts = []
    for row in rows:
        kind = "application/json" if "ok" in row else 'application/json; error="true"'
        body = msgspec.json.encode(row.get("ok", row))
        parts.append(f"--{boundary}\r\nContent-Type: {kind}\r\n\r\n".encode() + body + b"\r\n")
    body = b"".join(parts) + f"--{boundary}--".encode()
    return web.Response(body=body, headers={"Content-Type": f'multipart/mixed; boundary="{boundary}"'})
