"""An HTTP server that answers by a script, as a faulty database would."""

import asyncio
import json
from collections import deque

from aiohttp import web


class FaultyServer:
    """Stores documents in memory, as `_bulk_docs` does with new ones, unless the script differs.

    `script` holds steps, one for each request to come; when it is empty, requests are served.
    `refuse` maps a value to the error that a document with this value gets.
    """

    def __init__(self):
        self.script = deque()
        self.stored = {}
        self.writes = []  # the id of each write that took effect
        self.refuse = {}
        self.batches = []  # documents in each request
        self.headers = []
        self.paths = []
        self.port = 0
        self.stopping = asyncio.Event()
        self._runner = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    async def start(self):
        """Listen on a free port, and later on the same one."""
        self.stopping.clear()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self):
        self.stopping.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def serve(self, request, body):
        """The answer of a sound database."""
        if not request.path.endswith("/_bulk_docs"):
            return web.json_response({"couchdb": "Welcome"})
        return web.json_response([self._store(document) for document in body["docs"]], status=201)

    def _store(self, document):
        document_id = document["_id"]
        if document["value"] in self.refuse:
            return {"id": document_id} | self.refuse[document["value"]]
        if document_id in self.stored:
            return {"id": document_id, "error": "conflict", "reason": "Document update conflict."}
        self.stored[document_id] = document
        self.writes.append(document_id)
        return {"ok": True, "id": document_id, "rev": "1-abc"}

    async def _answer(self, request):
        body = await request.json() if request.can_read_body else None
        self.headers.append(dict(request.headers))
        self.paths.append(request.raw_path)
        if isinstance(body, dict) and "docs" in body:
            self.batches.append(len(body["docs"]))
        step = self.script.popleft() if self.script else FaultyServer.serve_step
        return await step(self, request, body)

    @staticmethod
    async def serve_step(server, request, body):
        return await server.serve(request, body)


def status(code, error="some_error", reason="some reason"):
    """Answer with this status, and store nothing."""

    async def step(_server, _request, _body):
        return web.json_response({"error": error, "reason": reason}, status=code)

    return step


def status_if(values, code):
    """Refuse the whole request if one of its documents has such a value; else serve it."""

    async def step(server, request, body):
        if any(document["value"] in values for document in body["docs"]):
            return web.json_response({"error": "too_large", "reason": "document"}, status=code)
        return await server.serve(request, body)

    return step


async def half_an_answer(server, request, body):
    """Store all, then break off in the middle of the answer's body."""
    answer = await server.serve(request, body)
    assert isinstance(answer.body, bytes)
    response = web.StreamResponse(status=201, headers={"Content-Length": str(len(answer.body))})
    await response.prepare(request)
    await response.write(answer.body[: len(answer.body) // 2])
    _hang_up(request)
    return response


async def half_the_rows(server, request, body):
    """Store all, but answer with the outcomes of half of the documents."""
    answer = await server.serve(request, body)
    rows = json.loads(answer.text or "")
    return web.json_response(rows[: len(rows) // 2], status=201)


async def answer_lost(server, request, body):
    """Store all, then close the connection without an answer."""
    await server.serve(request, body)
    _hang_up(request)
    return web.Response()


async def never(server, _request, _body):
    """Never answer."""
    await server.stopping.wait()
    return web.Response()


def _hang_up(request):
    request.transport.abort()
