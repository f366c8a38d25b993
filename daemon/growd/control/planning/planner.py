"""Base of the nodes that give a variable the set point that follows from that of another variable."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from growd.bus.messages import Quality
from growd.control.topics import desired
from growd.runtime.clock import until_beat
from growd.runtime.liveness import LOOP_S
from growd.runtime.sentence import Sentence, problem
from growd.variables import HUMIDITY, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.bus import Bus
    from growd.bus.messages import Message


class Planner(ABC):
    """The node `<environment>/planners/<variable>`: publishes set points of `variable` on `desired`.

    They follow from the set point of the first of `sources` that has one, and are calculated again each
    `period_s`; moves by less than `step` are not published. A set point of the variable itself, of a recipe
    or a client, wins. An answer to a client says which one is in force.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        variable: str,
        sources: Iterable[str],
        *,
        step: float,
        period_s: float,
    ) -> None:
        self.node = bus.node(f"{environment}/planners/{variable}")
        self._bus = bus
        self._clock = bus.clock
        self._environment = environment
        self._variable = variable
        self._sources = {desired(environment, source): source for source in sources}
        self._topic = bus.topics.get(desired(environment, variable))
        self._output = self.node.publisher(self._topic.name)
        self._step = step
        self._period = period_s
        self._wanted: dict[str, float] = {}
        self._planned: float | None = None  # the set point in force, if it is of this node
        self._is_direct = False
        for topic in self._sources:
            self.node.open(topic)
            bus.topics.get(topic).remarks.append(self._remark_on_source)
        self._topic.remarks.append(self._remark_on_direct)
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Plan until cancelled."""
        topics = (self._topic.name, *self._sources)
        with self.node.inbox(*topics) as inbox:
            for topic in topics:
                last = self._bus.topics.get(topic).last
                if last is not None:
                    self.node.attempt(self._take, last)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tick(), name=f"{self.node.name}: tick")
                async for message in inbox:
                    if message.node != self.node.name:
                        self.node.attempt(self._take, message)
                        self._plan()

    @abstractmethod
    def _set_point(self) -> float | None:
        """The set point of the variable that follows now, None for none."""

    @abstractmethod
    def _trouble(self) -> str:
        """Why the set point of a source cannot be reached, "" if it can."""

    def _take(self, message: Message) -> None:
        source = self._sources.get(message.topic)
        is_ok = message.quality is Quality.OK
        if source is not None:
            if is_ok:
                self._wanted[source] = float(message.value)
            else:
                self._wanted.pop(source, None)
        elif message.node != self.node.name:
            self._is_direct, self._planned = is_ok, None

    async def _tick(self) -> None:
        with self._bus.liveness.heartbeat(self.node.name, LOOP_S + self._period) as heart:
            while True:
                heart.beat()
                self._plan()
                await self._clock.sleep(until_beat(self._clock, self._period))

    def _plan(self) -> None:
        value = None if self._is_direct else self._set_point()
        if value is None:
            if self._planned is not None:
                self._output.publish(None, Quality.STALE)
            self._planned = None
        elif self._is_moved(value):
            self._output.publish(value)
            self._planned = value

    def _is_moved(self, value: float) -> bool:
        before = self._planned
        return before is None or abs(value - before) >= self._step or (value == 0) is not (before == 0)

    def _remark_on_source(self, message: Message) -> str:
        if message.quality is not Quality.OK:
            return ""
        before = [topic for topic, source in self._sources.items() if source in self._wanted]
        if message.topic in before:
            before = before[: before.index(message.topic)]
        winner = self._topic.name if self._is_direct else next(iter(before), "")
        if not winner:
            self._take(message)
            return self._trouble() if self._variable == HUMIDITY else ""  # recipes know the range of light
        name, last = winner.rpartition("/")[2], self._bus.topics.get(winner).last
        if last is not None and last.node == f"{self._environment}/recipe_runner":
            return f"has no effect while the recipe sets {name}, which wins"
        return f"has no effect while {name} has a set point, which wins: growd topic release {winner}"

    def _remark_on_direct(self, message: Message) -> str:
        if not self._wanted:
            return ""
        names = " and ".join(sorted(self._wanted))
        if message.quality is not Quality.OK:
            return f"{self._variable} follows the set point of {names} again"
        return f"takes the place of the set point of {names} until it is released"

    def _problems(self) -> list[dict[str, Any]]:
        trouble = "" if self._is_direct or not self._wanted else self._trouble()
        if not trouble:
            return []
        source = next(each for each in self._sources.values() if each in self._wanted)
        about = {"environment": self._environment, "variable": source, "reason": trouble}
        remedy = "" if self._planned is None else "Lower the set point."
        sentence = Sentence(f"{self._environment}: {trouble}", "plan_not_followed", **about)
        return [problem(sentence, name=f"{self._environment}/{source}", remedy=remedy)]

    def _shown(self, variable: str, value: float) -> str:
        known = VARIABLES[variable]
        return f"{round(value, known.precision):.6g} {known.unit}"
