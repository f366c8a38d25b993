"""Nodes: the participants of the bus, with their publishers, subscriptions, services and parameters."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from growd.bus.errors import InvalidValueError, NameTakenError, NotOpenError, UnknownNameError
from growd.bus.fields import past_time
from growd.bus.messages import Quality
from growd.bus.names import normalise
from growd.bus.params import Parameters
from growd.bus.services import SUCCESS, Service, Services
from growd.bus.topics import Publisher, Subscription, Topics
from growd.runtime.clock import whole_microseconds
from growd.runtime.liveness import Liveness

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from growd.bus.fields import Field
    from growd.bus.messages import Message, MessageType
    from growd.bus.params import Parameter
    from growd.runtime.clock import Clock

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)


class Bus:
    """Topics, parameters, services, and the nodes that use them. Everything runs on the event loop."""

    def __init__(
        self, clock: Clock, parameters: Parameters | None = None, liveness: Liveness | None = None
    ) -> None:
        self.clock = clock
        self.liveness = Liveness() if liveness is None else liveness
        self.topics = Topics()
        self.services = Services()
        self.parameters = Parameters() if parameters is None else parameters
        self._nodes: dict[str, Node] = {}

    def node(self, name: str) -> Node:
        """A new node of this name; it is on the bus until it is closed."""
        name = normalise(name)
        if name in self._nodes:
            raise NameTakenError("node", name)
        node = self._nodes[name] = Node(self, name)
        return node

    def find_node(self, name: str) -> Node:
        """The node of this name; `UnknownNameError` if there is none."""
        name = normalise(name)
        node = self._nodes.get(name)
        if node is None:
            raise UnknownNameError("node", name)
        return node

    def node_names(self) -> list[str]:
        return sorted(self._nodes)

    def forget(self, node: Node) -> None:
        """Remove a node from the bus, unless another node has its name by now."""
        if self._nodes.get(node.name) is node:
            del self._nodes[node.name]


class Node:
    """One participant: a sampler, filter, controller, runner, the store, or the API."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.name = name
        self._bus = bus
        self._publishers: dict[str, Publisher] = {}
        self._subscriptions: WeakSet[Subscription] = WeakSet()  # topics hold the open ones
        self._inboxes: dict[tuple[str, ...], Subscription] = {}
        self._services: list[str] = []
        self._parameters: list[Parameter] = []
        self._details: dict[str, Callable[[], Any]] = {}
        self._preparations: dict[str, Callable[[], Awaitable[None]]] = {}

    def advertise(self, topic: str, message_type: MessageType) -> Publisher:
        """Become a publisher of a topic, which is made if it does not exist, and which clients can't use.

        Raises `NameTakenError` if clients may publish on it, since its readers trust the sender.
        """
        declared = self._bus.topics.declare(topic, message_type)
        if declared.is_open:
            raise NameTakenError("topic", declared.name)
        return self._publisher(declared.name)

    def open(self, topic: str) -> None:
        """Let clients publish on a topic that this node reads."""
        self._bus.topics.open(topic)

    def publisher(self, topic: str) -> Publisher:
        """A publisher on a topic that exists; `UnknownNameError` if it does not."""
        publisher = self._publishers.get(topic)
        return publisher or self._publisher(self._bus.topics.get(topic).name)

    def publish_arguments(self, topic: str, arguments: Any, time: float = 0.0) -> Message:
        """Publish from constructor arguments in order, as a client of the API sends them.

        The node becomes a publisher of the topic with its first valid message. On a releasable topic, [null]
        is a message without a value and of quality stale. `time` is UNIX seconds, 0 for now; only a topic
        that `takes_past` has another one. Raises `NotOpenError` if clients may not publish.
        """
        channel = self._bus.topics.get(topic)
        if not channel.is_open:
            raise NotOpenError(channel.name, channel.publishers, channel.note)
        is_release = channel.is_releasable and arguments == [None]
        value = None if is_release else channel.type.construct(arguments)
        now = self._bus.clock.time()
        if time and not channel.takes_past:
            raise InvalidValueError("time", "0 (only notes and manual measurements have another time)", time)
        moment = whole_microseconds(past_time(time, now))
        self.publisher(channel.name)
        quality = Quality.STALE if is_release else Quality.OK
        return channel.deliver(value, moment, quality, self.name, is_past=bool(time))

    def subscribe(self, *topics: str, depth: int = 64, of_others: bool = False) -> Subscription:
        """A subscription to these topics, or to the messages `of_others` on them; the reader closes it."""
        found = [self._bus.topics.get(topic) for topic in topics]
        subscription = Subscription(self.name, found, depth, of_others=of_others)
        self._subscriptions.add(subscription)
        return subscription

    @contextlib.contextmanager
    def inbox(self, *topics: str, depth: int = 64, of_others: bool = False) -> Iterator[Subscription]:
        """A subscription for the loop of a component that its supervisor may restart.

        If the body raises, the subscription stays open, and the next inbox for the same topics resumes it
        with the waiting messages. Otherwise it is closed.
        """
        messages = self._inboxes.pop(topics, None) or self.subscribe(
            *topics, depth=depth, of_others=of_others
        )
        try:
            yield messages
        except Exception:
            messages.is_resumed = True
            self._inboxes[topics] = messages
            raise
        finally:
            if topics not in self._inboxes:
                messages.close()

    def attempt(self, take: Callable[[Message], T], message: Message) -> T | None:
        """Call `take` with a message. An exception is logged and counted (`Liveness.failed`), and gives None.

        One bad message thus does not end the loop of a component.
        """
        try:
            return take(message)
        except Exception as error:  # noqa: BLE001  an error of the component
            self._bus.liveness.failed(self.name, error)
            _log.exception("%s could not handle a message on %s; continuing", self.name, message.topic)
            return None

    def serve(
        self,
        name: str,
        request_type: str,
        handler: Callable[..., Awaitable[dict[str, Any]]],
        *,
        arguments: tuple[Field, ...] = (),
        reply: tuple[Field, ...] = SUCCESS,
        doc: str = "",
        is_administrative: bool = False,
        names_caller: bool = False,
        only_reads: bool = False,
    ) -> Service:
        """Offer a service; see `Service`."""
        service = Service(
            normalise(name), request_type, self.name, handler, arguments, reply, doc, is_administrative,
            names_caller, only_reads,
        )  # fmt: skip
        self._bus.services.add(service)
        self._services.append(service.name)
        return service

    def declare(self, name: str, field: Field, *, read_only: bool = False) -> Parameter:
        """Declare a parameter of this node; see `Parameters.declare`."""
        parameter = self._bus.parameters.declare(name, field, self.name, read_only=read_only)
        self._parameters.append(parameter)
        return parameter

    def describe(
        self, name: str, detail: Callable[[], Any], *, prepare: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Add the JSON value that `detail` returns, at `name`, to the information on this node.

        `prepare` is awaited before `detail` is called; it raises nothing and does not take long.
        """
        self._details[name] = detail
        if prepare is not None:
            self._preparations[name] = prepare

    async def prepare(self) -> None:
        """Await all preparations of details."""
        for prepare in self._preparations.values():
            await prepare()

    def details(self) -> dict[str, Any]:
        """All details by name."""
        return {name: detail() for name, detail in self._details.items()}

    def detail(self, name: str) -> Any:
        """One detail; KeyError if there is none of this name."""
        return self._details[name]()

    def information(self) -> dict[str, Any]:
        """`node_name`, `pubs`, `subs`, `srvs`, `params`, and the details, as in the API."""
        read = [subscription for subscription in self._subscriptions if not subscription.is_closed]
        return {
            "node_name": self.name,
            "pubs": sorted(self._publishers),
            "subs": sorted({topic.name for subscription in read for topic in subscription.topics}),
            "srvs": sorted(self._services),
            "params": sorted(parameter.name for parameter in self._parameters),
            **self.details(),
        }

    def close(self) -> None:
        """Leave the bus: stop publishing, reading and serving. Topics still have their last message."""
        for publisher in self._publishers.values():
            publisher.close()
        for subscription in list(self._subscriptions):
            subscription.close()
        for service in self._services:
            self._bus.services.remove(service)
        for parameter in self._parameters:
            self._bus.parameters.undeclare(parameter)
        self._publishers, self._services, self._parameters = {}, [], []
        self._bus.forget(self)

    def _publisher(self, topic: str) -> Publisher:
        if topic not in self._publishers:
            self._publishers[topic] = Publisher(self.name, self._bus.topics.get(topic), self._bus.clock)
        return self._publishers[topic]
