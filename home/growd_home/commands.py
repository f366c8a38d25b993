"""Commands that come by MQTT: they take the same way as those of the API."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import BusError, InvalidValueError
from growd.host.hold import Holder
from growd.runtime.text import printable
from growd_home.discovery import NO_RECIPE, PRESS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from growd.bus import Bus, Node
    from growd.bus.topics import Topic
    from growd.host.hold import Hold
    from growd_home.layout import TopicNames

    Work = Callable[[bytes], Awaitable[str]]

_MOST_WAITING: Final = 64  # topics with a command that waits
_MOST_BYTES: Final = 1_024
_REST_S: Final = 0.05  # after each command: a set point is written to the disk
_RELEASES: Final = (b"null", b"None")
_HOLD: Final = b"ON"
_ON: Final = {_HOLD: True, b"OFF": False}
_AUTHOR: Final = "mqtt"
_log = logging.getLogger(__name__)


class CommandRefusedError(Exception):
    """A command that is not carried out, and why."""


class Commands:
    """Carries out commands one after the other. Of those that wait on one topic, only the newest counts.

    `hold/set` always has a place, and ON is carried out before the others: it makes the chamber safe. An
    unknown name is refused at once and takes no place.

    An empty message is none: a broker sends it when somebody removes a retained one. `refused(topic, reason)`
    is called for each that is not carried out, `remarked(topic, words)` for what growd answers to the others,
    `changed()` after each. `node` publishes for the clients. `recipes` lists those that can be chosen, and
    `holds` the present holds. `selected` has the recipe that is chosen for the next start, by environment.
    """

    def __init__(
        self,
        bus: Bus,
        node: Node,
        topics: TopicNames,
        environments: Collection[str],
        *,
        recipes: Callable[[], Awaitable[Collection[str]]],
        holds: Callable[[], Iterable[Hold]],
        refused: Callable[[str, str], None],
        remarked: Callable[[str, str], None],
        changed: Callable[[], None],
    ) -> None:
        self._bus = bus
        self._node = node
        self._lead = topics("")
        self._hold_topic = topics("hold", "set")
        self._environments = environments
        self._recipes = recipes
        self._holds = holds
        self._refused = refused
        self._remarked = remarked
        self._changed = changed
        self._waiting: dict[str, tuple[Work, bytes]] = {}
        self._arrived = asyncio.Event()
        self.selected: dict[str, str] = {}
        self.accepted = 0

    def take(self, topic: str, body: bytes, *, is_retained: bool) -> None:
        """Take a message; a retained one is refused, since it would come again and again."""
        if is_retained:
            self._refused(topic, "the message is retained, publish it without retain; it is ignored")
        elif not body:
            self._refused(topic, "the message is empty, as when a retained one is removed")
        elif len(body) > _MOST_BYTES:
            self._refused(topic, f"the message has {len(body)} bytes, at most {_MOST_BYTES} are taken")
        else:
            try:
                self._queue(topic, body)
            except (CommandRefusedError, BusError) as error:
                self._refused(topic, str(error))

    def _queue(self, topic: str, body: bytes) -> None:
        work = self._work(topic.removeprefix(self._lead).split("/"))
        self._waiting.pop(topic, None)  # the newest is carried out last
        if topic != self._hold_topic and len(self._waiting.keys() - {self._hold_topic}) >= _MOST_WAITING:
            raise CommandRefusedError(f"{_MOST_WAITING} other commands wait")
        if topic == self._hold_topic and body == _HOLD:
            self._waiting = {topic: (work, body), **self._waiting}
        else:
            self._waiting[topic] = work, body
        self._arrived.set()

    async def run(self) -> None:
        """Carry out commands until cancelled."""
        while True:
            await self._arrived.wait()
            while self._waiting:
                topic = next(iter(self._waiting))
                await self._carry_out(topic, *self._waiting.pop(topic))
                self._changed()
                await asyncio.sleep(_REST_S)
            self._arrived.clear()

    async def _carry_out(self, topic: str, work: Work, body: bytes) -> None:
        try:
            words = await work(body)
        except (CommandRefusedError, BusError) as error:
            self._refused(topic, str(error))
            return
        self.accepted += 1
        if words:
            self._remarked(topic, words)
        _log.info("a command by MQTT on %s: %s%s", topic, _shown(body), f"; {words}" if words else "")

    def _work(self, names: list[str]) -> Work:
        """What carries out the message of a topic. Raises `CommandRefusedError` or `BusError` without any."""
        match names:
            case ["hold", "set"]:
                return self._hold
            case [environment, "desired" | "commanded" as kind, variable, "set"]:
                return partial(self._publish, self._bus.topics.get(f"{environment}/{kind}/{variable}"))
            case [environment, "recipe", "selected", "set"] if environment in self._environments:
                return partial(self._select, environment)
            case [environment, "recipe", action]:
                self._bus.services.get(f"{environment}/{action}_recipe")
                return (
                    partial(self._start, environment)
                    if action == "start"
                    else partial(self._act, environment, action)
                )
        raise CommandRefusedError("there is no such command")

    async def _publish(self, topic: Topic, body: bytes) -> str:
        """A set point or a command: a number, or null to release it."""
        value = None if body in _RELEASES else _number(body)
        name = topic.name.partition("/")[2].replace("/", " ")
        try:
            message = self._node.publish_arguments(topic.name, [value])
        except InvalidValueError as error:
            raise CommandRefusedError(str(InvalidValueError(name, error.expected, value))) from None
        except BusError as error:
            raise CommandRefusedError(f"{name}: {error}") from None
        return await topic.answer(message, _AUTHOR)

    async def _hold(self, body: bytes) -> str:
        is_on = _ON.get(body)
        if is_on is None:
            raise CommandRefusedError(f"the message must be ON or OFF, got {_shown(body)}")
        return await self._call("hold/set", {}) if is_on else await self._release()

    async def _release(self) -> str:
        """Release the hold that came by MQTT: who holds the outputs at the chamber may have a hand inside."""
        hold = next((each for each in self._holds() if each.holder is Holder.PERSON), None)
        if hold is None:
            return await self._call("hold/release", {})
        if hold.by != _AUTHOR:
            raise CommandRefusedError(f"MQTT releases only its own hold: {hold}")
        return await self._call("hold/release", {"since": hold.since, "reason": hold.reason})

    async def _select(self, environment: str, body: bytes) -> str:
        chosen = _text(body)
        if chosen != NO_RECIPE and chosen not in await self._recipes_now():
            raise CommandRefusedError(f"there is no recipe {_shown(body)}")
        self.selected[environment] = "" if chosen == NO_RECIPE else chosen
        return ""

    async def _recipes_now(self) -> Collection[str]:
        try:
            return await self._recipes()
        except (OSError, RuntimeError) as error:
            raise CommandRefusedError(f"the recipes can't be listed: {error}") from None

    async def _act(self, environment: str, action: str, body: bytes) -> str:
        """Stop, pause or resume the recipe."""
        if body != PRESS:
            raise CommandRefusedError(f"the message must be {PRESS.decode()}, got {_shown(body)}")
        return await self._call(f"{environment}/{action}_recipe", {})

    async def _start(self, environment: str, body: bytes) -> str:
        """Start the recipe that the message names, else the one that is chosen."""
        named = "" if body == PRESS else _text(body)
        recipe_id = named or self.selected.get(environment, "")
        if not recipe_id:
            raise CommandRefusedError("no recipe is chosen")
        return await self._call(f"{environment}/start_recipe", {"recipe_id": recipe_id})

    async def _call(self, service: str, arguments: dict[str, Any]) -> str:
        answer = await self._bus.services.get(service).call(arguments, _AUTHOR)
        if not answer["success"]:
            raise CommandRefusedError(answer["message"])
        return str(answer["message"])


def _number(body: bytes) -> float:
    try:
        return msgspec.json.decode(body, type=float)
    except msgspec.DecodeError:
        raise CommandRefusedError(
            f"the message must be a number, or null to release, got {_shown(body)}"
        ) from None


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise CommandRefusedError("the message is not UTF-8") from None


def _shown(body: bytes) -> str:
    return printable(body[:80].decode(errors="replace")) or "nothing"
