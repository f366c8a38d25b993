"""The bridge to home automation: publishes the state of growd at an MQTT broker, and takes commands."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.status.model import BridgeStatus
from growd_home.commands import Commands
from growd_home.layout import OFFLINE, ONLINE
from growd_home.outgoing import Outbound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from growd.bus import Bus
    from growd.host.mqtt import MqttLink
    from growd.status.model import Status
    from growd_home.discovery import Discovery
    from growd_home.layout import HomePlace, TopicNames
    from growd_home.outgoing import Outgoing

NODE: Final = "mqtt/bridge"
_REFRESH_S: Final = 60.0  # each message is published again after this time
_RECIPES_S: Final = 30.0  # the recipes are listed again after this time
_NO_RECIPES_S: Final = 5.0  # likewise, if the database has not answered
_LEAST_S: Final = 0.1  # between two rounds, also if many commands come
_AT_ONCE: Final = 40  # messages that wait for their acknowledgement
_REFUSALS_LOGGED_S: Final = 1.0  # at most one line in this time
_log = logging.getLogger(__name__)


class Bridge:
    """Publishes what `snapshot` returns, each `interval_s` what has changed since; retained.

    `look_up` brings up to date what costs more, such as the state of the machine, once a minute. `recipes`
    lists the ids of the recipes. With `commands`, messages on the topics of commands are carried out. The
    topic of availability has "offline", retained, and "online" after each round, not retained. `link` has the
    former as its last will.
    """

    def __init__(
        self,
        bus: Bus,
        link: MqttLink,
        topics: TopicNames,
        places: Sequence[HomePlace],
        *,
        look_up: Callable[[], Awaitable[None]],
        snapshot: Callable[[], Status],
        recipes: Callable[[], Awaitable[list[str]]],
        interval_s: float,
        discovery: Discovery | None,
        commands: bool,
    ) -> None:
        self.node = bus.node(NODE)
        self._link = link
        self._topics = topics
        self._look_up = look_up
        self._snapshot = snapshot
        self._list_recipes = recipes
        self._interval_s = interval_s
        self._discovery = discovery
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._is_online = False
        self._published = self._refused = 0
        self._logged_at = -_REFUSALS_LOGGED_S
        environments = [place.environment for place in places]
        self._commands = (
            Commands(
                bus,
                self.node,
                topics,
                environments,
                recipes=recipes,
                holds=lambda: snapshot().holds,
                refused=self._refuse,
                remarked=self._remark,
                changed=self._wake.set,
            )
            if commands
            else None
        )
        selected = None if self._commands is None else self._commands.selected
        self._outbound = Outbound(topics, places, discovery, selected=selected)
        self.node.describe("bridge", self._described)
        wanted = topics.commands() if commands else []
        if discovery is not None:
            wanted += [discovery.birth, discovery.all_topics]
        link.listen(wanted, self._receive)

    async def run(self) -> None:
        """Publish while there is a connection, and carry out commands, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._commands is not None:
                tasks.create_task(self._commands.run(), name=f"{NODE}: commands")
                tasks.create_task(self._watch_recipes(), name=f"{NODE}: recipes")
            while True:
                number = await self._link.connected()
                with contextlib.suppress(ConnectionError):  # a problem of the connection
                    await self._exchange(number)
                self._is_online = False
                await asyncio.sleep(_LEAST_S)

    async def _exchange(self, number: int) -> None:
        """Publish on one connection. Raises ConnectionError."""
        self._outbound.forget()
        await self._link.publish(self._topics.availability, OFFLINE, retain=True)
        await self._look_up()
        refreshed_at = self._loop.time()
        while self._link.connections == number:
            await self._publish_due()
            self._is_online = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._wake.wait()
                await asyncio.sleep(_LEAST_S)
            self._wake.clear()
            if self._loop.time() - refreshed_at >= _REFRESH_S:
                refreshed_at = self._loop.time()
                self._outbound.forget()
                await self._look_up()

    async def _publish_due(self) -> None:
        publish = self._link.publish
        for batch in _batches(self._outbound.due(self._snapshot()), _AT_ONCE):
            await asyncio.gather(*(publish(each.topic, each.body, retain=each.retain) for each in batch))
            self._outbound.acknowledge(batch)
            self._published += len(batch)
        # Last, so that no value of an earlier run is shown as a present one. It is not retained: a broker
        # that restarts without growd would say that growd is online, with the values of the time before.
        await publish(self._topics.availability, ONLINE)

    async def _watch_recipes(self) -> None:
        """List the recipes now and then; without an answer the last list stays."""
        while True:
            try:
                found = await self._list_recipes()
            except (OSError, RuntimeError):
                await asyncio.sleep(_NO_RECIPES_S)
                continue
            if found != self._outbound.recipes:
                self._outbound.recipes = found
                self._wake.set()
            await asyncio.sleep(_RECIPES_S)

    def _receive(self, topic: str, body: bytes, is_retained: bool) -> None:  # noqa: FBT001  of MqttLink
        discovery = self._discovery
        if discovery is not None and topic == discovery.birth:
            if body == ONLINE:
                self._outbound.forget()
                self._wake.set()
        elif discovery is not None and topic.startswith(f"{discovery.prefix}/device/"):
            if is_retained and body and discovery.is_own(topic) and self._outbound.compare(topic, body):
                self._wake.set()
        elif self._commands is not None and self._topics.is_command(topic):
            self._commands.take(topic, body, is_retained=is_retained)

    def _refuse(self, topic: str, reason: str) -> None:
        """Log and publish why a command is not carried out, and publish the state again."""
        self._refused += 1
        self._outbound.note("refused", reason, topic=topic)
        self._outbound.forget_topic(topic.removesuffix("/set"))
        self._wake.set()
        now = self._loop.time()
        if now - self._logged_at >= _REFUSALS_LOGGED_S:
            self._logged_at = now
            _log.warning("the command by MQTT on %s is refused: %s", topic, reason)

    def _remark(self, topic: str, words: str) -> None:
        """Publish what growd says about a command that is carried out."""
        self._outbound.note("remark", words, topic=topic)

    def _described(self) -> dict[str, Any]:
        status = BridgeStatus(
            host=self._link.broker.host,
            port=self._link.broker.port,
            is_connected=self._is_online and not self._link.problem,
            reason=self._link.reason,
            topic=self._topics().rstrip("/"),
            takes_commands=self._commands is not None,
            published=self._published,
            accepted=0 if self._commands is None else self._commands.accepted,
            refused=self._refused,
        )
        return msgspec.structs.asdict(status)


def _batches(messages: Iterable[Outgoing], size: int) -> Iterator[list[Outgoing]]:
    rest = iter(messages)
    while batch := [*itertools.islice(rest, size)]:
        yield batch
