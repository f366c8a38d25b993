"""Set points by hand: kept over restarts, and held over a recipe until it next changes the variable."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from growd.bus.errors import InvalidValueError
from growd.bus.messages import Quality
from growd.recipes.interpreter import beyond
from growd.recipes.plan import Shape  # noqa: TC001  msgspec reads it
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.bus import Bus, Node
    from growd.bus.messages import Message
    from growd.bus.topics import Topic
    from growd.recipes.interpreter import Reach
    from growd.recipes.plan import Written

_log = logging.getLogger(__name__)

_KEPT: Final = "; it is not kept over a restart: "


class SetPoint(msgspec.Struct, forbid_unknown_fields=True):
    """A set point by hand: its value, who set it, and when (UNIX seconds).

    `over` is the set point of the recipe that it holds over (see `Plan.written`); None where no recipe drove
    the variable then.
    """

    value: float
    by: str
    since: float
    over: tuple[float | None, Shape, float | None] | None = None


class SetPointStore(Protocol):
    """Where set points by hand are kept. Each call raises OSError if it can't be done."""

    async def load(self) -> dict[str, Any]:
        """Those that were saved last, by variable."""

    async def save(self, set_points: dict[str, Any]) -> None:
        """Keep these and no others. They are on the disk when this returns."""


class Driver(Protocol):
    """What drives the set points of an environment beside people: the recipe."""

    def written(self, variable: str) -> Written | None:
        """The recipe's set point in force; None where none runs, or it has not set the variable yet."""

    def in_words(self, variable: str) -> str:
        """The recipe, its value, and until when it is: "the recipe demo_day (8000 lux) until ..."."""

    def take_back(self, variable: str) -> None:
        """Publish the recipe's set point again, if it has one: somebody released theirs."""


class SetPointsByHand:
    """What clients publish on `<environment>/desired/<variable>`, and what becomes of it.

    A set point holds until somebody releases it, or a recipe takes the variable over: when it starts, or when
    it first sets the variable. One that is set while a recipe drives the variable holds over the recipe until
    that changes the variable (`Plan.written` differs): not along a ramp, not by publishing the same value
    each second, not when a cycle repeats the value. A pause of the recipe and a restart of growd change
    nothing about it; a skip ends it where the recipe has another set point there; the end of the recipe
    releases it.

    A client's message is answered once the set point is on the disk in `store`, or with the reason why it is
    not. `store` None keeps nothing. A set point outside `reach`, what the actuators can do, is answered with
    that.
    """

    def __init__(
        self, bus: Bus, environment: str, driver: Driver, happened: Callable[[str], None],
        store: SetPointStore | None, *, reach: Reach | None = None,
    ) -> None:  # fmt: skip
        self.node: Node = bus.node(f"{environment}/set_points")
        self._topics = bus.topics
        self._environment = environment
        self._driver = driver
        self._happened = happened
        self._store = store
        self._reach = {} if reach is None else reach
        self._held: dict[str, SetPoint] = {}
        self._is_saved = True
        for variable in VARIABLES:
            topic = self._topic(variable)
            topic.keeper = partial(self._taken, variable)
            topic.remarks.append(partial(self._beyond, variable))
        self.node.describe("set_points", self._described)

    def _topic(self, variable: str) -> Topic:
        return self._topics.get(f"{self._environment}/desired/{variable}")

    def __contains__(self, variable: str) -> bool:
        return variable in self._held

    def beside(self, variables: Iterable[str]) -> str:
        """What to say at the start of a recipe of these: the set points that it leaves in force."""
        left = sorted(self._held.keys() - variables)
        shown = ", ".join(_shown(variable, self._held[variable].value) for variable in left)
        return f"; warning: the recipe leaves in force what is set by hand: {shown}" if left else ""

    def stands(self, variable: str, written: Written | None) -> bool:
        """Whether a set point by hand holds; it is dropped where not. `written` is that of the recipe."""
        held = self._held.get(variable)
        if held is None:
            return False
        if held.over == written:
            return True
        self.drop(variable)
        if held.over is not None and written is not None:
            now = "releases it" if written[0] is None else f"sets {_shown(variable, written[0])}"
            self._happened(f"{_shown(variable, held.value)} by hand ends: the recipe {now}")
        return False

    def drop(self, variable: str) -> None:
        """Forget a set point, which somebody else releases or replaces on the topic."""
        if self._held.pop(variable, None) is not None:
            self._is_saved = False

    async def restore(self) -> None:
        """Publish the set points that were kept and still hold. Raises OSError.

        A client may have published before, and before anybody listened: that counts.
        """
        kept = {} if self._store is None else await self._store.load()
        for variable in VARIABLES:
            last = self._topic(variable).last
            if last is not None and last.value is not None and variable not in self._held:
                self._hold(variable, last, "a client, while growd started")
            elif last is None and variable in kept:
                self._restore(variable, kept[variable])
        self._is_saved = msgspec.to_builtins(self._held) == kept
        await self.save()

    def _restore(self, variable: str, kept: Any) -> None:
        publisher = self.node.publisher(f"{self._environment}/desired/{variable}")
        try:
            held = self._held[variable] = msgspec.convert(kept, SetPoint)
            if self.stands(variable, self._driver.written(variable)):
                publisher.publish(held.value)
                words = f"{_shown(variable, held.value)}, set by {held.by}"
                _log.info("%s: restored the set point by hand: %s", self._environment, words)
                return
        except (msgspec.ValidationError, InvalidValueError) as error:
            _log.warning("%s: dropped the kept set point of %s: %s", self._environment, variable, error)
            self.drop(variable)
        publisher.publish(None, Quality.STALE)

    async def save(self) -> None:
        """Save what has changed since the last time. Raises OSError."""
        if self._is_saved:
            return
        self._is_saved = True
        try:
            if self._store is not None:
                await self._store.save(msgspec.to_builtins(self._held))
        except BaseException:
            self._is_saved = False
            raise

    async def _taken(self, variable: str, message: Message, who: str) -> str:
        """A client has published: note it, save it, and say what there is to say."""
        words = self._release(variable) if message.value is None else self._hold(variable, message, who)
        try:
            await self.save()
        except OSError as error:
            words += f"{_KEPT if words else _KEPT.removeprefix('; ')}{error}"
        return words

    def _beyond(self, variable: str, message: Message) -> str:
        return "" if message.value is None else beyond(self._reach, variable, message.value)

    def _release(self, variable: str) -> str:
        was_held = variable in self._held
        self.drop(variable)
        is_driven = self._driver.written(variable) is not None
        self._driver.take_back(variable)
        words = "released" if was_held else f"there was no set point of {variable} by hand to release"
        if is_driven:
            return f"{words}; now in force: {self._driver.in_words(variable)}"
        return "" if was_held else words

    def _hold(self, variable: str, message: Message, who: str) -> str:
        over = self._driver.written(variable)
        before = self._held.get(variable)
        if before is None or (before.value, before.over) != (message.value, over):
            self._held[variable] = SetPoint(message.value, who, message.time, over)
            self._is_saved = False
        if over is None:
            return ""
        words = f"holds over {self._driver.in_words(variable)}"
        if before is None or before.over != over:
            self._happened(f"{_shown(variable, message.value)} by hand (by {who}) {words}")
        return f"{words}, or until it is released: growd topic release {message.topic}"

    def _described(self) -> list[dict[str, Any]]:
        """For `growd status`."""
        return [
            {
                "environment": self._environment,
                "variable": variable,
                "value": held.value,
                "unit": VARIABLES[variable].unit,
                "by": held.by,
                "since": held.since,
                "over": "" if held.over is None else self._driver.in_words(variable),
            }
            for variable, held in sorted(self._held.items())
        ]


def _shown(variable: str, value: float) -> str:
    return f"{variable} {value:g} {VARIABLES[variable].unit}"
