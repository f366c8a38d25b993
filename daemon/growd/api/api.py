"""The REST API 0.0.1: parameters, services, topics and nodes over HTTP. `operations.py` has its calls."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from growd.api.history import history_query
from growd.api.operation import Call, Limits, Operation
from growd.api.requests import BodyReader, decode_name, is_form
from growd.api.streams import Streams
from growd.bus.errors import BusError, UnknownNameError, shown
from growd.bus.names import normalise
from growd.runtime.clock import RealClock
from growd.runtime.event_loop import load
from growd.runtime.sentence import code_of
from growd.server.client_limits import Clients
from growd.server.client_request import READING, address_of, client_of
from growd.server.errors import ApiError, error_fields
from growd.server.json_answer import JsonAnswer, json_answer, names_answer
from growd.store.errors import LocalStoreError, StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
    from contextlib import AbstractContextManager

    from aiohttp import web

    from growd.access.authorization import Authorization
    from growd.api.stream_answers import StreamAnswers
    from growd.bus.messages import Message
    from growd.bus.nodes import Bus, Node
    from growd.runtime.clock import Clock
    from growd.store.entries.journal import GrowersJournal
    from growd.store.history.history import History

    Page = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

T = TypeVar("T")
VERSION: Final = "0.0.1"
_POSTED: Final = {"message": "Posted message to topic"}
_SLASHES: Final = re.compile("//+")
_log = logging.getLogger(__name__)


def _data(message: Message) -> web.StreamResponse:
    return json_answer(
        {"result": message.value, "time": message.time, "quality": message.quality, "node": message.node}
    )


class Api:
    """Answers the requests beneath `root`, "/_svc", from the bus; the API is beneath `prefix`.

    `access` judges requests. Without it everybody who reaches growd may do everything; with `is_open` other
    machines can reach it. `clock` measures the intervals of streams. It is the machine's by default, also
    where the bus has a clock that runs fast.
    """

    def __init__(
        self,
        bus: Bus,
        node: Node,
        root: str,
        operations: tuple[Operation, ...],
        limits: Limits | None = None,
        *,
        clients: Clients | None = None,
        access: Authorization | None = None,
        is_open: bool = False,
        clock: Clock | None = None,
        history: History | None = None,
        journal: GrowersJournal | None = None,
    ) -> None:
        self.bus = bus
        self.node = node
        self.limits = limits or Limits()
        self.is_starting = False
        """Whether operations, services and keepers of topics are still to come."""
        self._own = operations
        self.of_parts: tuple[Operation, ...] = ()
        """Those that parts have offered, in order."""
        self._route()
        self.clients = clients or Clients()
        self.clock = clock or RealClock()
        self.root = root
        self.prefix = f"{root}/api/{VERSION}"
        self.bodies = BodyReader(self.limits)
        self.streams = Streams(node, self.limits, self.clients, self.clock, bus.clock.time)
        self.pages: dict[str, Page] = {}
        """Further pages beneath `root`, by path, such as those of the room `web`."""
        self.pages |= dict.fromkeys((root, f"{root}/", self.prefix, f"{self.prefix}/"), self._list_addresses)
        self.folders: dict[str, Callable[[str, web.BaseRequest], Awaitable[web.StreamResponse]]] = {}
        """Answers by the rest of the path for everything beneath these paths, which all may read."""
        self._page = {f"{root}{path}" for path in ("", "/", "/api", "/api/", "/docs", "/worker.js")}
        self._open = {f"{self.prefix}/{each.resource}" for each in operations if each.is_open}
        self.access = access
        self._mode = "couchdb" if access is not None else "open" if is_open else "local"
        self.history = history
        self.journal = journal
        self._calls: set[asyncio.Task[Any]] = set()
        self._answers: StreamAnswers | None = None

    def offer(self, operations: Iterable[Operation]) -> None:
        """Serve further operations, those of a part, from now on."""
        self.of_parts = (*self.of_parts, *operations)
        self._route()

    def withdraw(self, operations: Collection[Operation], why: str) -> None:
        """Refuse operations of a part with 503 and this sentence from now on."""

        async def refuse(_: Api, __: Call) -> web.StreamResponse:
            raise ApiError(503, "part_failed", why)

        self.of_parts = tuple(
            msgspec.structs.replace(each, handler=refuse) if each in operations else each
            for each in self.of_parts
        )
        self._route()

    def _route(self) -> None:
        self.operations = (*self._own, *self.of_parts)
        self.routes = _routes(self.operations)

    def is_page(self, path: str) -> bool:
        """Whether a path is the page or one of its files: they hold no data, so all may load them."""
        return path in self._page or path.startswith((*self.folders,))

    def plain_path(self, path: str) -> str:
        """A raw path without doubled slashes and, unless a page is there, without one at its end."""
        if "//" in path:
            path = _SLASHES.sub("/", path)
        return path if path in self.pages else path.removesuffix("/") or "/"

    async def handle(self, request: web.BaseRequest, path: str, query: str) -> web.StreamResponse:
        """Answer a request whose raw path is at or beneath `root`. All errors have the same form."""
        try:
            is_open = request.method in READING and (path in self._open or self.is_page(path))
            if self.access is not None and not is_open:
                await self.access.admit(request, path, reads=self._only_reads(request.method, path))
            response = await self._dispatch(request, path, query)
        except ApiError as error:
            response = self._refusal(error).response()
        except BusError as error:
            refusal = self._refusal(ApiError.from_bus(error))
            if refusal.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                _log.error("%s %s: %s", request.method, path, error)
            response = refusal.response()
        except Exception:  # the last resort: the client gets the same form of error
            if request.writer.output_size:
                raise  # an answer has begun
            response = _unexpected(request.method, path).response()
        if self.access is not None:
            response = self.access.finish(request, path, response)
        if "Expect" in request.headers and not request.content.at_eof():
            response.force_close()  # a body may follow or not (RFC 9110, section 10.1.1)
        return response

    async def perform(self, request: web.BaseRequest, method: str, path: str, body: Any = None) -> Any:
        """What an operation answers a client that has no request of its own for it.

        `request` is the one with which it began; its login, client and address count. Only operations that
        answer with one JSON document can be performed. Raises `ApiError` and `BusError`.
        """
        if self.access is not None:
            await self.access.admit(request, path, reads=self._only_reads(method, path))
        operation, name = self._find(method, path)
        checked = None if operation.body is None else operation.body.check(body)
        call = Call(request, name, operation.read_query(""), checked)
        try:
            response = cast("JsonAnswer", await self._run(operation, call))
        except (ApiError, BusError):
            raise
        except Exception:  # noqa: BLE001  the last resort, as for a request
            raise _unexpected(method, path) from None
        answer = msgspec.json.decode(response.document)
        if response.status != HTTPStatus.OK:
            raise ApiError(response.status, answer["error"], answer["ERROR"])
        return answer

    def lasting(self, request: web.BaseRequest) -> AbstractContextManager[None]:
        """Check the login again during the body, in which `request` is answered."""
        return nullcontext() if self.access is None else self.access.lasting(request)

    def end_streams(self) -> None:
        """End all streams and refuse new ones."""
        self.streams.close()

    async def close(self) -> None:
        """End background tasks, after all requests have ended."""
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)
        if self.access is not None:
            await self.access.close()

    async def _dispatch(self, request: web.BaseRequest, path: str, query: str) -> web.StreamResponse:
        page = self.pages.get(path)
        folder = next((each for each in self.folders if path.startswith(each)), None)
        if page is None and folder is not None:
            page = partial(self.folders[folder], path.removeprefix(folder))
        if page is not None:
            if request.method not in READING:
                raise _not_allowed(request.method, ("GET", "HEAD"))
            return await page(request)
        operation, name = self._find(request.method, path)
        if operation.is_administrative and self.access is not None:
            self.access.require_administrator(request)
        values = operation.read_query(query)
        if operation.body is None or (operation.body.with_photos and is_form(request)):
            return await self._run(operation, Call(request, name, values, None))
        async with self.bodies.reading(request) as given:
            body = operation.body.check(given)
            return await self._run(operation, Call(request, name, values, body))

    async def _run(self, operation: Operation, call: Call) -> web.StreamResponse:
        """The answer of an operation. `ApiError` 503 if the database or the disk fails."""
        try:
            return await operation.handler(self, call)
        except StoreError as error:
            if call.request.writer.output_size:
                raise  # the answer has begun
            if isinstance(error, LocalStoreError):
                raise ApiError(503, "not_kept", str(error)) from None
            raise ApiError.without_database(error) from None

    def _find(self, method: str, path: str) -> tuple[Operation, str]:
        """The operation at a path, and the name of what it is about, or ""."""
        resource, raw_name = self._locate(path)
        operations = self.routes.get((resource, bool(raw_name)))
        if operations is None:
            raise self._no_such_path(path)
        operation = operations.get(method)
        if operation is None:
            raise _not_allowed(method, operations)
        return operation, own_name(operation.kind, decode_name(raw_name)) if raw_name else ""

    def _only_reads(self, method: str, path: str) -> bool:
        """Whether a request changes nothing."""
        services = f"{self.prefix}/service/"
        if method != "POST" or not path.startswith(services):
            return method in READING
        try:
            name = own_name("service", decode_name(path.removeprefix(services)))
            return self.bus.services.get(name).only_reads
        except (ApiError, BusError):
            return False

    def _locate(self, path: str) -> tuple[str, str]:
        """The resource and the raw name that a path beneath the prefix names."""
        if not path.startswith(self.prefix + "/"):
            raise self._no_such_path(path)
        resource, _, name = path[len(self.prefix) + 1 :].partition("/")
        return resource, name

    async def _list_addresses(self, _: web.BaseRequest) -> web.StreamResponse:
        named = {each.resource: f"{self.prefix}/{each.resource}/{{{each.kind}}}" for each in self.operations}
        whole = {each.resource: f"{self.prefix}/{each.resource}" for each in self.operations if not each.kind}
        beside = {name: f"{self.root}/{name}" for name in ("health", "ready", "metrics", "rosbridge")}
        return json_answer(named | whole | beside)

    def _refusal(self, error: ApiError) -> ApiError:
        """The error, or that growd is starting, for what may come yet."""
        return _starting() if self.is_starting and error.status == HTTPStatus.NOT_FOUND else error

    def _no_such_path(self, path: str) -> ApiError:
        sentence = f"there is no path {shown(path)}; {self.prefix}/openapi.json lists all paths"
        return ApiError(404, "not_found", sentence)

    # parameters

    async def list_parameters(self, call: Call) -> web.StreamResponse:
        parameters = self.bus.parameters
        names = parameters.declared_names() if call.query["declared"] else parameters.names()
        return names_answer(names)

    async def get_parameter(self, call: Call) -> web.StreamResponse:
        return json_answer({"result": self.bus.parameters.get(call.name)})

    async def set_parameter(self, call: Call) -> web.StreamResponse:
        kept = await self.bus.parameters.set(call.name, call.body["value"], is_new=call.query["new"])
        return json_answer({"result": kept})

    async def delete_parameter(self, call: Call) -> web.StreamResponse:
        return json_answer({"result": await self.bus.parameters.delete(call.name)})

    # services

    async def list_services(self, _: Call) -> web.StreamResponse:
        return names_answer(self.bus.services.names())

    async def get_service(self, call: Call) -> web.StreamResponse:
        service = self.bus.services.get(call.name)
        return json_answer(
            {
                "request_type": service.request_type,
                "node": service.node,
                "args": [field.name for field in service.arguments],
            }
        )

    async def call_service(self, call: Call) -> web.StreamResponse:
        service = self.bus.services.get(call.name)
        if self.access is not None:
            self.access.require_leave_to_call(call.request, service)
        calling = service.call(call.body, address_of(call.request), user=self.user_of(call.request))
        answer = await self.to_end(calling, f"call {service.name}")
        if answer["success"]:
            return json_answer(answer)
        # a client that looks only at the status must see a refusal
        refusal = answer | error_fields("refused", answer["message"])
        said = code_of(answer["message"])  # a sentence in any language, if there is a code
        return json_answer(refusal | said if said["code"] else refusal, status=400)

    async def to_end(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """The result of `work`, which goes on to its end even if the client disconnects."""
        task = asyncio.create_task(work, name=name)
        self._calls.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, call: asyncio.Task[Any]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # retrieved, so that asyncio does not log it

    # topics

    async def list_topics(self, _: Call) -> web.StreamResponse:
        return names_answer(self.bus.topics.names())

    async def get_topic(self, call: Call) -> web.StreamResponse:
        topic = self.bus.topics.get(call.name)
        return json_answer({"type": topic.type.name, "subs": topic.subscribers, "pubs": topic.publishers})

    async def publish(self, call: Call) -> web.StreamResponse:
        if self.is_starting and self.bus.topics.get(call.name).keeper is None:
            raise _starting()  # what saves it is not there yet
        message = self.node.publish_arguments(call.name, call.body, call.query["time"])
        who = self.who(call.request, call.query["by"])
        hint = await self.bus.topics.get(call.name).answer(message, who)
        return json_answer({**_POSTED, "hint": hint} if hint else _POSTED)

    def who(self, request: web.BaseRequest, named: str = "") -> str:
        """The user, else the name that the client gives, else the address, for the record."""
        return self.user_of(request) or named or address_of(request)

    def user_of(self, request: web.BaseRequest) -> str:
        """The user's name, "" without a login."""
        return "" if self.access is None else self.access.user_of(request)

    async def stream_topic(self, call: Call) -> web.StreamResponse:
        with self.lasting(call.request):
            answers = await self._load_answers()
            return await answers.serve(call.request, call.name, latest=call.query["latest"])

    async def stream_topics(self, call: Call) -> web.StreamResponse:
        topics = [own_name("topic", name) for name in call.query["topic"]]
        with self.lasting(call.request):
            answers = await self._load_answers()
            return await answers.serve_many(call.request, topics, call.query)

    async def next_message(self, call: Call) -> web.StreamResponse:
        if call.query["last"]:
            return _data(self._last(call.name))
        limit = call.query["timeout"]
        with self.streams.subscription(call.name, client=client_of(call.request)) as subscription:
            try:
                async with asyncio.timeout(limit):
                    message = await subscription.get()
            except TimeoutError:
                sentence = f"no message arrived on the topic {call.name} within {limit:g} s"
                raise ApiError(404, "no_message", sentence) from None
        return _data(message)

    async def _load_answers(self) -> StreamAnswers:
        """What answers with streams; loaded for the first one."""
        await load("growd.api.stream_answers")
        from growd.api.stream_answers import StreamAnswers  # noqa: PLC0415

        self._answers = self._answers or StreamAnswers(self.streams)
        return self._answers

    def _last(self, name: str) -> Message:
        topic = self.bus.topics.get(name)
        if topic.last is None:
            raise ApiError(404, "no_message", f"the topic {topic.name} has no message yet")
        return topic.last

    # the past

    async def read_history(self, call: Call) -> web.StreamResponse:
        environment = normalise(call.name)
        if self.history is None:
            raise UnknownNameError("environment", environment)
        self.history.check_environment(environment)
        query = history_query(environment, call.query, self.bus.clock.time())
        async with self.history.answering(query, client_of(call.request)) as past:
            answer = json_answer(past)
            await answer.send(call.request)
            return answer

    # nodes

    async def list_nodes(self, _: Call) -> web.StreamResponse:
        return names_answer(self.bus.node_names())

    async def get_node(self, call: Call) -> web.StreamResponse:
        node = self.bus.find_node(call.name)
        await node.prepare()
        return json_answer(node.information())

    # the login

    async def get_session(self, call: Call) -> web.StreamResponse:
        user, role = "", "admin"
        if self.access is not None:
            user, role = await self.access.identify(call.request)
        return json_answer({"access": self._mode, "user": user, "role": role})


def _routes(operations: Iterable[Operation]) -> dict[tuple[str, bool], dict[str, Operation]]:
    """Operations by resource, by whether a name follows, and by method. HEAD is handled like GET."""
    routes: dict[tuple[str, bool], dict[str, Operation]] = {}
    for operation in operations:
        methods = routes.setdefault((operation.resource, bool(operation.kind)), {})
        methods[operation.method] = operation
        if operation.method == "GET" and operation.answer not in {"stream", "topics", "data"}:
            methods["HEAD"] = operation
    return routes


def _unexpected(method: str, path: str) -> ApiError:
    """Log the exception that is being handled; clients get no details."""
    _log.exception("%s %s failed", method, path)
    return ApiError(500, "internal_error", "internal error; see growd's log")


def _not_allowed(method: str, allowed: Iterable[str]) -> ApiError:
    allow = ", ".join(allowed)
    sentence = f"{method} is not allowed here; allowed: {allow}"
    return ApiError(405, "method_not_allowed", sentence, {"Allow": allow})


def _starting() -> ApiError:
    # browsers follow Refresh, other clients Retry-After
    again = {"Retry-After": "1", "Refresh": "1"}
    return ApiError(503, "starting", "growd is starting; try again in a moment", again)


def own_name(kind: str, name: str) -> str:
    """Growd's name for a name of the control panel openag_ui.

    The topic `environments/<env>/<variable>/<category>` is `<env>/<category>/<variable>` here, the service
    `environments/<env>/<service>` is `<env>/<service>`.
    """
    bare = name.removeprefix("/")
    if kind not in {"topic", "service"} or not bare.startswith("environments/"):
        return name
    parts = bare.split("/")[1:]
    if kind == "topic" and len(parts) == 3:  # noqa: PLR2004  environment, variable, category
        environment, variable, category = parts
        return f"{environment}/{category}/{variable}"
    return "/".join(parts)
