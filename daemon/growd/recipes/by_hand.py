"""Set points by hand: they survive restarts, and override a recipe until it next changes the variable."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from growd.bus.errors import InvalidValueError
from growd.bus.messages import Quality
from growd.recipes.formats import beyond
from growd.recipes.plan import Shape  # noqa: TC001  msgspec reads it
from growd.runtime.sentence import Sentence
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.bus import Bus, Node
    from growd.bus.messages import Message
    from growd.bus.topics import Topic
    from growd.recipes.formats import Reach
    from growd.recipes.plan import Written

_log = logging.getLogger(__name__)


class SetPoint(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A set point by hand: its value, who set it, and when (UNIX seconds).

    `over` is the set point of the recipe that it overrides (see `Plan.written`), None without one.
    """

    value: float
    by: str
    since: float
    over: tuple[float | None, Shape, float | None] | None = None


class SetPointStore(Protocol):
    """Where set points by hand are saved. Each call raises OSError if it fails."""

    async def load(self) -> dict[str, Any]:
        """The saved set points, by variable."""

    async def save(self, set_points: dict[str, Any]) -> None:
        """Replace the saved set points, durably."""


class RecipeDriver(Protocol):
    """What drives the set points of the running recipe; see `RecipeRunner`."""

    def written(self, variable: str) -> Written | None: ...
    def publish_again(self) -> None: ...
    def describe(self, variable: str) -> str: ...
    def changes_at(self, variable: str) -> float: ...


class SetPointsByHand:
    """The set points that clients publish on `<environment>/desired/<variable>`.

    A set point is in force until it is released, or until a recipe first sets the variable. One that is set
    while a recipe drives the variable overrides the recipe until the recipe next changes the variable
    (`Plan.written` differs). A ramp or a repeated value is not a change. A skip ends the override if the
    recipe's set point differs there, and the end of the recipe releases it. A pause or a restart does not.

    A client is answered once the set point is saved in `store` (None saves nothing), or with the reason why
    it is not, and with a warning if it is outside `reach`, the range of the actuators.
    """

    def __init__(
        self, bus: Bus, environment: str, driver: RecipeDriver, report: Callable[[str, str, str], None],
        store: SetPointStore | None, *, reach: Reach | None = None,
    ) -> None:  # fmt: skip
        self.node: Node = bus.node(f"{environment}/set_points")
        self._topics = bus.topics
        self._environment = environment
        self._driver = driver
        self._report = report
        self._store = store
        self._reach = {} if reach is None else reach
        self.fault = ""
        """Why the last save failed, "" if it did not."""
        self._held: dict[str, SetPoint] = {}
        self._changes = self._saved = 0  # how often set points changed, and how many of that are saved
        self._saving: asyncio.Task[None] | None = None  # the next save, which has not begun
        for variable in VARIABLES:
            topic = self._topic(variable)
            topic.keeper = partial(self._on_client_message, variable)
            topic.remarks.append(partial(self._range_warning, variable))
        self.node.describe("set_points", self._described)

    def _topic(self, variable: str) -> Topic:
        return self._topics.get(f"{self._environment}/desired/{variable}")

    def __contains__(self, variable: str) -> bool:
        return variable in self._held

    def outside(self, variables: Iterable[str]) -> str:
        """The warning at the start of a recipe of these variables: other set points by hand stay in force."""
        left = sorted(self._held.keys() - variables)
        shown = ", ".join(_shown(variable, self._held[variable].value) for variable in left)
        return f"; warning: set points by hand stay in force: {shown}" if left else ""

    def holds(self, variable: str, written: Written | None) -> bool:
        """Whether a set point by hand is in force; drops an ended one. `written` is that of the recipe."""
        held = self._held.get(variable)
        if held is None:
            return False
        if held.over == written:
            return True
        self.drop(variable)
        if held.over is not None and written is not None:
            now = "releases it" if written[0] is None else f"sets {_shown(variable, written[0])}"
            text = f"{_shown(variable, held.value)} by hand ends: the recipe {now}"
            self._report(Sentence(text, "hand_ended", **_fields(variable, held.value)), "", variable)
        return False

    def drop(self, variable: str) -> None:
        """Forget a set point, which the caller releases or replaces on the topic."""
        if self._held.pop(variable, None) is not None:
            self._changes += 1

    async def restore(self) -> None:
        """Publish the saved set points that are still in force. Raises OSError.

        A message that a client published before takes precedence.
        """
        saved = {} if self._store is None else await self._store.load()
        for variable in VARIABLES:
            last = self._topic(variable).last
            if last is not None and last.node.startswith(f"{self._environment}/planners/"):
                continue  # it follows from another set point
            if last is not None and last.value is not None and variable not in self._held:
                self._set(variable, last, "a client, while growd started")
            elif last is None and variable in saved:
                self._restore(variable, saved[variable])
        if msgspec.to_builtins(self._held) != saved:
            self._changes += 1
        await self.save()

    def _restore(self, variable: str, saved: Any) -> None:
        publisher = self.node.publisher(f"{self._environment}/desired/{variable}")
        try:
            held = self._held[variable] = msgspec.convert(saved, SetPoint)
            if self.holds(variable, self._driver.written(variable)):
                publisher.publish(held.value, time=held.since)
                words = f"{_shown(variable, held.value)}, set by {held.by}"
                _log.info("%s: restored the set point by hand: %s", self._environment, words)
                return
        except (msgspec.ValidationError, InvalidValueError) as error:
            _log.warning("%s: dropped the saved set point of %s: %s", self._environment, variable, error)
            self.drop(variable)
        publisher.publish(None, Quality.STALE)

    async def save(self) -> None:
        """Save changes; those that come in one turn of the loop share a write. Raises OSError."""
        if self._saved == self._changes:
            return
        if self._saving is None:
            self._saving = asyncio.create_task(self._save(), name=f"{self.node.name}: save")
        await asyncio.shield(self._saving)

    async def _save(self) -> None:
        self._saving, changes = None, self._changes
        try:
            if self._store is not None:
                await self._store.save(msgspec.to_builtins(self._held))
        except OSError as error:
            self.fault = str(error)
            raise
        self._saved, self.fault = max(self._saved, changes), ""

    async def _on_client_message(self, variable: str, message: Message, who: str) -> str:
        """Set or release, save, and return the message for the client."""
        words = self._release(variable, who) if message.value is None else self._set(variable, message, who)
        try:
            await self.save()
        except OSError as error:
            then = "a restart may set it again" if message.value is None else "it ends with a restart"
            words += f"{words and '; '}could not be saved, so {then}: {error}"
        return words

    def _range_warning(self, variable: str, message: Message) -> str:
        return "" if message.value is None else beyond(self._reach, variable, message.value)

    def _release(self, variable: str, who: str) -> str:
        was_set = variable in self._held
        if was_set:
            text = f"{_shown(variable, self._held[variable].value)} by hand is released"
            fields = _fields(variable, self._held[variable].value)
            self._report(Sentence(text, "hand_released", **fields), who, variable)
        self.drop(variable)
        is_driven = self._driver.written(variable) is not None
        self._driver.publish_again()
        words = "released" if was_set else f"{variable} had no set point by hand to release"
        if is_driven:
            return f"{words}; now in force: {self._driver.describe(variable)}"
        return "" if was_set else words

    def _set(self, variable: str, message: Message, who: str) -> str:
        over = self._driver.written(variable)
        words = "" if over is None else f"overrides {self._driver.describe(variable)}"
        before = self._held.get(variable)
        if before is None or (before.value, before.over) != (message.value, over):
            self._held[variable] = SetPoint(message.value, who, message.time, over)
            self._changes += 1
            text = f"{_shown(variable, message.value)} by hand {words}".rstrip()
            code = "hand_set_over" if words else "hand_set"
            self._report(Sentence(text, code, **_fields(variable, message.value)), who, variable)
        if over is None:
            return ""
        return f"{words}, or until you release it: growd topic release {message.topic}"

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
                "over": "" if held.over is None else self._driver.describe(variable),
                "until": 0.0 if held.over is None else self._driver.changes_at(variable),
                "is_idle": bool(self._topic(variable).note),
            }
            for variable, held in sorted(self._held.items())
        ]


def _shown(variable: str, value: float) -> str:
    return f"{variable} {value:g} {VARIABLES[variable].unit}"


def _fields(variable: str, value: float) -> dict[str, Any]:
    return {"variable": variable, "value": value, "unit": VARIABLES[variable].unit}
