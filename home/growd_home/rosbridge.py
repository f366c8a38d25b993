"""rosbridge: topics, services and parameters over a websocket, for pages made with roslibjs.

The protocol is version 2 (ROSBRIDGE_PROTOCOL.md in RobotWebTools/rosbridge_suite). What a client asks for is
performed as an operation of the API, with its permissions, checks and sentences.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aiohttp import WSCloseCode, WSMessage, WSMsgType, web
from msgspec.json import encode

from growd.api.api import own_name
from growd.api.broadcast import bound_buffers, transport_of
from growd.api.requests import SMALL, decoded
from growd.bus.errors import (
    BusError,
    ClosedError,
    InvalidArgumentsError,
    NotOpenError,
    UnknownNameError,
    counted,
    shown,
)
from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.bus.names import MAX_NAME
from growd.bus.services import Service
from growd.server.client_request import add_own_headers, client_of
from growd.server.connections import connection_of
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from growd.api.api import Api
    from growd.bus.messages import Message, MessageType
    from growd.bus.nodes import Bus
    from growd.bus.topics import Topic

MOST_SUBSCRIPTIONS: Final = 200  # of a connection
MOST_CALLS: Final = 16  # of services at a time, by a connection
CLOSE_S: Final = 1.0  # how long a client may take to close
LEVELS: Final = ("none", "error", "warning", "info")
_OPEN: Final = {WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.PONG}


async def serve_rosbridge(api: Api, request: web.BaseRequest) -> web.StreamResponse:
    """Speak rosbridge with a client until it disconnects. `ApiError` 426 if it opens no websocket."""
    limits: dict[str, Any] = {"heartbeat": max(1.0, api.limits.heartbeat_s), "max_msg_size": SMALL}
    socket = web.WebSocketResponse(timeout=CLOSE_S, compress=False, autoping=False, **limits)
    if not socket.can_prepare(request):
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        raise ApiError(426, "upgrade_required", "rosbridge needs a websocket (ws:// or wss://)", headers)
    with api.streams.subscription(client=client_of(request)) as place, api.lasting(request):
        add_own_headers(request, socket.headers)
        await socket.prepare(request)
        connection_of(request).upgrade()
        bound_buffers(transport_of(request))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(place.arrival(), name="rosbridge: end of streams")
                await RosbridgeClient(api, request, socket, tasks).run()
        except* (ConnectionError, ClosedError):
            pass  # the client went, or all streams end
        await socket.close(code=WSCloseCode.GOING_AWAY)
    return socket


class RosbridgeClient:
    """One connection, and what it subscribes to."""

    def __init__(
        self, api: Api, request: web.BaseRequest, socket: web.WebSocketResponse, tasks: asyncio.TaskGroup
    ) -> None:
        self._api = api
        self._request = request
        self._socket = socket
        self._tasks = tasks
        self._level = LEVELS.index("warning")
        self._calls: set[asyncio.Task[None]] = set()
        self._wanted: dict[tuple[str, str], tuple[float, int]] = {}
        """Throttle in seconds and queue of each subscription, by the name of its topic and its id."""
        self._following: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Answer until the client disconnects, which raises `ConnectionError`."""
        while (message := await self._socket.receive()).type in _OPEN:
            given: dict[str, Any] = {}
            async with self._refusing(given):
                try:
                    given.update(_asked(message))
                finally:
                    self._api.clients.count(client_of(self._request))
                if given:
                    await getattr(self, f"_{given['op']}")(*_checked(given))
                elif message.type is WSMsgType.PING:
                    await self._socket.pong(message.data)
            await asyncio.sleep(0)  # many messages may have come at once; others are served meanwhile
        raise ConnectionResetError("the client has gone")

    @asynccontextmanager
    async def _refusing(self, given: dict[str, Any]) -> AsyncIterator[None]:
        """Tell the client why the operation `given` is refused."""
        try:
            yield
        except (ApiError, BusError) as error:
            if given.get("op") == "call_service":
                await self._respond(given.get("id"), given.get("service"), str(error), result=False)
            else:
                await self._tell("error", str(error), given.get("id"))

    async def _ask(self, method: str, resource: str, name: str, body: Any = None) -> Any:
        """What an operation of the API answers."""
        path = f"{self._api.prefix}/{resource}/{quote(name, safe='')}"
        return await self._api.perform(self._request, method, path, body)

    # what clients ask for, with the values of `_FIELDS`; `kind` is the name of a type

    async def _advertise(self, _: str, name: str, kind: str) -> None:
        topic = self._topic(name, kind)
        if not topic.is_open:
            raise NotOpenError(topic.name, topic.publishers, topic.note)

    async def _unadvertise(self, _: str, name: str) -> None:
        self._topic(name)

    async def _publish(self, identity: str, name: str, msg: Any) -> None:
        its_type = self._topic(name).type
        names = [field.name for field in its_type.fields]
        if not isinstance(msg, dict) or msg.keys() != set(names):
            sentence = f"a message of {its_type.name} has the fields {its_type.signature()}, not {shown(msg)}"
            raise InvalidArgumentsError(sentence)
        answer = await self._ask("POST", "topic", name, [msg[each] for each in names])
        if "hint" in answer:
            await self._tell("warning", answer["hint"], identity)

    async def _subscribe(
        self, identity: str, name: str, kind: str, throttle: float, queue: int, *_: str
    ) -> None:
        self._topic(name, kind)
        if (name, identity) not in self._wanted and len(self._wanted) >= MOST_SUBSCRIPTIONS:
            sentence = f"this connection has {MOST_SUBSCRIPTIONS} subscriptions, the maximum"
            raise ApiError(429, "too_many_subscriptions", sentence)
        depth = queue or (1 if throttle else self._api.limits.stream_queue)
        self._wanted[name, identity] = (throttle / 1000, depth)
        self._follow(name)

    async def _unsubscribe(self, identity: str, name: str) -> None:
        for topic, each in [*self._wanted]:
            if topic == name and identity in {"", each}:
                del self._wanted[topic, each]
        self._follow(name)

    async def _call_service(self, identity: str, service: str, args: Any) -> None:
        if len(self._calls) >= MOST_CALLS:
            sentence = f"{MOST_CALLS} calls of services by this connection are under way, the maximum"
            raise ApiError(503, "busy", sentence)
        work = self._answer_call(identity, service, args)  # other messages are served meanwhile
        call = self._tasks.create_task(work, name="rosbridge: call of a service")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _answer_call(self, identity: str, service: str, args: Any) -> None:
        async with self._refusing({"op": "call_service", "id": identity, "service": service}):
            name = service.removeprefix("/")
            call = self._rosapi if name in ROSAPI else partial(self._ask, "POST", "service")
            await self._respond(identity, service, await call(name, args), result=True)

    async def _rosapi(self, name: str, args: Any) -> Any:
        names, handler = ROSAPI[name]
        service = Service(name, "", "rosapi", handler, tuple(Field(each, Kind.STRING) for each in names))
        given = [own_name(*each) for each in service.bind(args).items()]
        answer = handler(self._api.bus, self._change, *given)
        return await answer if isawaitable(answer) else answer

    async def _change(self, method: str, name: str, value: str = "null") -> dict[str, Any]:
        await self._ask(method, "param", name, {"value": decoded(value.encode(), "value")})
        return {"successful": True, "reason": ""}

    async def _set_level(self, _: str, level: str) -> None:
        self._level = LEVELS.index(level)

    def _topic(self, name: str, kind: str = "") -> Topic:
        """The topic, which must be of this type unless it is ""."""
        topic = self._api.bus.topics.get(own_name("topic", name))
        if kind.replace("/msg/", "/") not in {"", topic.type.name}:  # ROS 2 has /msg/
            sentence = f"the topic {topic.name} has the type {topic.type.name}, not {shown(kind)}"
            raise InvalidArgumentsError(sentence)
        return topic

    # what clients get

    def _follow(self, name: str) -> None:
        """Send the messages of a topic as its subscriptions want it now."""
        if name in self._following:
            self._following.pop(name).cancel()
        if wanted := [each for (topic, _), each in self._wanted.items() if topic == name]:
            throttles, queues = zip(*wanted, strict=True)
            depth = min(max(queues), self._api.limits.stream_queue)
            work = self._send_all(name, self._topic(name), min(throttles), depth)
            self._following[name] = self._tasks.create_task(work, name=f"rosbridge: {name}")

    async def _send_all(self, name: str, topic: Topic, throttle: float, depth: int) -> None:
        """Send the last message and all that follow."""
        told = 0
        with self._api.node.subscribe(topic.name, depth=depth) as subscription:
            if topic.last is not None:
                subscription.put(topic.last)
            async for message in subscription:
                dropped, told = subscription.dropped - told, subscription.dropped
                if dropped and not throttle:
                    sentence = (
                        f"{counted(dropped, 'message')} of {name} dropped: this client reads too slowly"
                    )
                    await self._tell("warning", sentence)
                await self._send({"op": "publish", "topic": name, "msg": _ros_form(topic.type, message)})
                if throttle:
                    await self._api.clock.sleep(throttle)

    async def _respond(self, identity: Any, service: Any, values: Any, *, result: bool) -> None:
        answer = {"op": "service_response", "service": service, "values": values, "result": result}
        await self._send(answer, identity)

    async def _tell(self, level: str, sentence: str, identity: Any = "") -> None:
        if LEVELS.index(level) <= self._level:
            await self._send({"op": "status", "level": level, "msg": sentence}, identity)

    async def _send(self, message: dict[str, Any], identity: Any = "") -> None:
        """Write, and return when the connection takes more."""
        answer = message | {"id": identity} if identity else message
        await self._socket.send_str(encode(answer).decode())
        await self._request.writer.drain()


def _ros_form(kind: MessageType, message: Message) -> dict[str, Any]:
    """A message as ROS has it. Without a usable value all fields are null, and `quality` says why."""
    names = [field.name for field in kind.fields]
    if message.value is None or message.quality is not Quality.OK:
        return {**dict.fromkeys(names), "quality": message.quality}
    return {names[0]: message.value} if len(names) == 1 else dict(message.value)


def _asked(message: WSMessage) -> dict[str, Any]:
    """The operation that a message holds; empty for a ping or pong."""
    if message.type in {WSMsgType.PING, WSMsgType.PONG}:
        return {}
    if message.type is not WSMsgType.TEXT:
        raise InvalidArgumentsError("a message must be JSON in a text frame; BSON and CBOR are not supported")
    given = decoded(message.data.encode(), "message")
    if not isinstance(given, dict) or str(given.get("op")) not in _FIELDS:
        expected = f"a message must be an object with an op of {', '.join(_FIELDS)}"
        raise InvalidArgumentsError(f"{expected}, not {shown(given)}")
    return given


def _checked(given: dict[str, Any]) -> list[Any]:
    """The values of an operation. Further members are ignored: clients send some without a meaning here."""
    fields = (_ID, *_FIELDS[given["op"]])
    for field in fields:
        if field.required and given.get(field.name) is None:
            raise InvalidArgumentsError(f"{given['op']}: the field {field.name} is missing")
    return [each.check(each.default if given.get(each.name) is None else given[each.name]) for each in fields]


_ID: Final = Field("id", Kind.STRING, default="", max_length=256)
_TOPIC: Final = Field("topic", Kind.STRING, max_length=MAX_NAME + 1)
_TYPE: Final = Field("type", Kind.STRING, default="", max_length=MAX_NAME)
_THROTTLE: Final = Field("throttle_rate", Kind.FLOAT64, 0, 3_600_000, "ms", default=0.0)
_QUEUE: Final = Field("queue_length", Kind.INT64, 0, default=0)
_COMPRESSION: Final = Field("compression", Kind.STRING, default="none", choices=("none",))
_FRAGMENTS: Final = replace(_COMPRESSION, name="fragment_size")
_SERVICE: Final = Field("service", Kind.STRING, max_length=MAX_NAME + 1)
_FIELDS: Final[dict[str, tuple[Field, ...]]] = {
    "advertise": (_TOPIC, _TYPE),
    "unadvertise": (_TOPIC,),
    "publish": (_TOPIC, Field("msg", Kind.JSON)),
    "subscribe": (_TOPIC, _TYPE, _THROTTLE, _QUEUE, _COMPRESSION, _FRAGMENTS),
    "unsubscribe": (_TOPIC,),
    "call_service": (_SERVICE, Field("args", Kind.JSON, default=None)),
    "set_level": (Field("level", Kind.STRING, choices=LEVELS),),
}
"""The operations of clients, and what `RosbridgeClient` takes of them after the `id`."""


_EXAMPLES: Final = {
    Kind.FLOAT64: "0.0",
    Kind.INT64: "0",
    Kind.BOOL: "False",
    Kind.STRING: "",
    Kind.JSON: "null",
}


def _named(names: Iterable[str]) -> list[str]:
    return [f"/{name}" for name in names]


def _plain(kind: str) -> str:
    """The name of a type; ROS 2 writes std_msgs/msg/Float64."""
    return kind.replace("/msg/", "/").replace("/srv/", "/")


def _topics(on: Bus, *_: Any) -> dict[str, Any]:
    names = on.topics.names()
    return {"topics": _named(names), "types": [on.topics.get(name).type.name for name in names]}


def _raw_types(on: Bus, *_: Any) -> dict[str, Any]:
    types = [on.topics.get(name).type for name in on.topics.names()]
    texts = ["\n".join(f"{field.kind} {field.name}" for field in each.fields) for each in types]
    return {**_topics(on), "typedefs_full_text": texts}


def _node(on: Bus, _: Any, name: str) -> dict[str, Any]:
    about = on.find_node(name).information()
    members = {"subscribing": "subs", "publishing": "pubs", "services": "srvs"}
    return {member: _named(about[ours]) for member, ours in members.items()}


def _message(on: Bus, _: Any, kind: str) -> dict[str, Any]:
    for name in on.topics.names():
        if (its := on.topics.get(name).type).name == _plain(kind):
            return _described(kind, its.fields)
    raise UnknownNameError("message type", kind)


def _service(part: str) -> Callable[..., dict[str, Any]]:
    """What describes the `part`, "arguments" or "reply", of the services of a type."""

    def describe(on: Bus, _: Any, kind: str) -> dict[str, Any]:
        for name in on.services.names():
            if (its := on.services.get(name)).request_type == _plain(kind):
                return _described(kind, getattr(its, part))
        raise UnknownNameError("service type", kind)

    return describe


def _described(kind: str, fields: tuple[Field, ...]) -> dict[str, Any]:
    about = {
        "type": kind,
        "fieldnames": [field.name for field in fields],
        "fieldtypes": [field.kind for field in fields],
        "fieldarraylen": [-1] * len(fields),
        "examples": [_EXAMPLES[field.kind] for field in fields],
        "constnames": [],
        "constvalues": [],
    }
    return {"typedefs": [about]}


ROSAPI: Final[dict[str, tuple[tuple[str, ...], Callable[..., Any]]]] = {
    "rosapi/topics": ((), _topics),
    "rosapi/topics_and_raw_types": ((), _raw_types),
    "rosapi/topic_type": (("topic",), lambda on, _, name: {"type": on.topics.get(name).type.name}),
    "rosapi/topics_for_type": (
        ("type",),
        lambda on, _, kind: {
            "topics": _named(
                each for each in on.topics.names() if on.topics.get(each).type.name == _plain(kind)
            )
        },
    ),
    "rosapi/publishers": (
        ("topic",),
        lambda on, _, name: {"publishers": _named(on.topics.get(name).publishers)},
    ),
    "rosapi/message_details": (("type",), _message),
    "rosapi/services": ((), lambda on, _: {"services": _named(on.services.names())}),
    "rosapi/service_type": (("service",), lambda on, _, name: {"type": on.services.get(name).request_type}),
    "rosapi/services_for_type": (
        ("type",),
        lambda on, _, kind: {
            "services": _named(
                each for each in on.services.names() if on.services.get(each).request_type == _plain(kind)
            )
        },
    ),
    "rosapi/service_request_details": (("type",), _service("arguments")),
    "rosapi/service_response_details": (("type",), _service("reply")),
    "rosapi/nodes": ((), lambda on, _: {"nodes": _named(on.node_names())}),
    "rosapi/node_details": (("node",), _node),
    "rosapi/get_param_names": ((), lambda on, _: {"names": _named(on.parameters.names())}),
    "rosapi/get_param": (("name",), lambda on, _, name: {"value": encode(on.parameters.get(name)).decode()}),
    "rosapi/set_param": (("name", "value"), lambda _, change, *given: change("POST", *given)),
    "rosapi/delete_param": (("name",), lambda _, change, name: change("DELETE", name)),
    "rosapi/action_servers": ((), lambda *_: {"action_servers": []}),
}
"""Their arguments, and what answers them on the bus; the second argument changes a parameter."""
