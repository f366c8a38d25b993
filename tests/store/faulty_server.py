"""An HTTP server that answers by a script, as a faulty database would."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Step = Callable[["FaultyServer", web.Request, Any], Awaitable[web.StreamResponse]]


class FaultyServer:
    """Stores documents in memory, as `_bulk_docs` does with new ones, unless the script differs.

    `script` holds steps, one for each request to come; when it is empty, requests are served.
    `refuse` maps a value to the error that a document with this value gets.
    """

    def __init__(self) -> None:
        self.script: deque[Step] = deque()
        self.stored: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []  # the id of each write that took effect
        self.refuse: dict[Any, dict[str, Any]] = {}
        self.batches: list[int] = []  # documents in each request
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.port = 0
        self.stopping = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen on a free port, and later on the same one."""
        self.stopping.clear()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self.stopping.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def serve(self, request: web.Request, body: Any) -> web.Response:
        """The answer of a sound database."""
        if not request.path.endswith("/_bulk_docs"):
            return web.json_response({"couchdb": "Welcome"})
        return web.json_response([self._store(document) for document in body["docs"]], status=201)

    def _store(self, document: dict[str, Any]) -> dict[str, Any]:
        document_id = document["_id"]
        if document["value"] in self.refuse:
            return {"id": document_id} | self.refuse[document["value"]]
        if document_id in self.stored:
            return {"id": document_id, "error": "conflict", "reason": "Document update conflict."}
        self.stored[document_id] = document
        self.writes.append(document_id)
        return {"ok": True, "id": document_id, "rev": "1-abc"}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        self.headers.append(dict(request.headers))
        self.paths.append(request.raw_path)
        if isinstance(body, dict) and "docs" in body:
            self.batches.append(len(body["docs"]))
        step = self.script.popleft() if self.script else FaultyServer.serve_step
        return await step(self, request, body)

    @staticmethod
    async def serve_step(server: FaultyServer, request: web.Request, body: Any) -> web.StreamResponse:
        return await server.serve(request, body)


def status(code: int, error: str = "some_error", reason: str = "some reason") -> Step:
    """Answer with this status, and store nothing."""

    async def step(_server: FaultyServer, _request: web.Request, _body: Any) -> web.StreamResponse:
        return web.json_response({"error": error, "reason": reason}, status=code)

    return step


def status_if(values: set[Any], code: int) -> Step:
    """Refuse the whole request if one of its documents has such a value; else serve it."""

    async def step(server: FaultyServer, request: web.Request, body: Any) -> web.StreamResponse:
        if any(document["value"] in values for document in body["docs"]):
            return web.json_response({"error": "too_large", "reason": "document"}, status=code)
        return await server.serve(request, body)

    return step


async def half_an_answer(server: FaultyServer, request: web.Request, body: Any) -> web.StreamResponse:
    """Store all, then break off in the middle of the answer's body."""
    answer = await server.serve(request, body)
    assert isinstance(answer.body, bytes)
    response = web.StreamResponse(status=201, headers={"Content-Length": str(len(answer.body))})
    await response.prepare(request)
    await response.write(answer.body[: len(answer.body) // 2])
    _hang_up(request)
    return response


async def half_the_rows(server: FaultyServer, request: web.Request, body: Any) -> web.StreamResponse:
    """Store all, but answer with the outcomes of half of the documents."""
    answer = await server.serve(request, body)
    rows = json.loads(answer.text or "")
    return web.json_response(rows[: len(rows) // 2], status=201)


async def answer_lost(server: FaultyServer, request: web.Request, body: Any) -> web.StreamResponse:
    """Store all, then close the connection without an answer."""
    await server.serve(request, body)
    _hang_up(request)
    return web.Response()


async def never(server: FaultyServer, _request: web.Request, _body: Any) -> web.StreamResponse:
    """Never answer."""
    await server.stopping.wait()
    return web.Response()


def _hang_up(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()
