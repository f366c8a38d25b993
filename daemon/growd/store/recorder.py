"""From the bus to the outbox: which messages become data points."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.bus.messages import Quality
from growd.store.points import ChangeRule, DataPoint, PointMaker, StorageRule
from growd.variables import VARIABLES, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Topic
    from growd.store.outbox import Outbox

# The recipe runner keeps these two itself, in one transaction with the run they belong to.
_KEPT_BY_THE_RUNNER: Final = frozenset({"recipe_start", "recipe_end"})
_HTTP_NODE: Final = "http"
_DEPTH: Final = 1000


class Recorder:
    """Makes points of what is measured and desired, as the storage rules say, and adds them to the outbox.

    It reads the topics `<environment>/measured/<variable>` and `<environment>/desired/<variable>` that exist
    when it starts and whose messages are one value. Only messages of quality `ok` are stored. Measured values
    are stored with the decimals that the table of variables holds worth storing; `is_manual` marks those that
    a client gave by hand.
    """

    def __init__(
        self,
        bus: Bus,
        outbox: Outbox,
        maker: PointMaker,
        environments: Iterable[str],
        *,
        minimum_interval: float = 5.0,
        maximum_interval: float = 600.0,
    ) -> None:
        self.node = bus.node("recorder")
        self._bus = bus
        self._outbox = outbox
        self._maker = maker
        self._environments = tuple(environments)
        self._intervals = {"minimum_interval": minimum_interval, "maximum_interval": maximum_interval}
        self._measured: dict[str, StorageRule] = {}
        self._desired: defaultdict[str, ChangeRule] = defaultdict(ChangeRule)

    async def run(self) -> None:
        """Record until cancelled; what was published before that is recorded still."""
        sources = {source.topic: source for source in self._sources()}
        with self.node.subscribe(*sources, depth=_DEPTH) as messages:
            try:
                async for message in messages:
                    self._record(sources[message.topic], message)
            finally:
                while (left := messages.get_nowait()) is not None:
                    self._record(sources[left.topic], left)

    def _record(self, source: _Source, message: Message) -> None:
        point = self._point(source, message)
        if point is not None:
            self._outbox.add(point)

    def _sources(self) -> list[_Source]:
        topics = [self._bus.topics.get(name) for name in self._bus.topics.names()]
        found = [
            _source(environment, category, topic)
            for environment in self._environments
            for category in ("measured", "desired")
            for topic in topics
        ]
        return [source for source in found if source is not None]

    def _point(self, source: _Source, message: Message) -> DataPoint | None:
        return self._of_desired(source, message) if source.is_desired else self._of_measured(source, message)

    def _of_measured(self, source: _Source, message: Message) -> DataPoint | None:
        if message.quality is not Quality.OK:
            return None
        rule = self._measured.get(source.topic)
        if rule is None:
            rule = self._measured[source.topic] = StorageRule(source.known_as(), **self._intervals)
        # what is stored is what the rule compares: rounding could hide the change that let a value in
        value = _rounded(message.value, source.variable)
        if not rule.admits(value, self._bus.clock.monotonic()):
            return None
        return self._maker.make(
            source.environment,
            source.variable,
            value,
            message.time,
            is_desired=False,
            is_manual=message.node == _HTTP_NODE,
        )

    def _of_desired(self, source: _Source, message: Message) -> DataPoint | None:
        if message.quality is not Quality.OK:
            # The set point was released: the next one is a change, even to the same value.
            self._desired.pop(source.topic, None)
            return None
        if not self._desired[source.topic].admits(message.value):
            return None
        return self._maker.make(
            source.environment, source.variable, message.value, message.time, is_desired=True
        )


@dataclass(frozen=True, slots=True)
class _Source:
    topic: str
    environment: str
    variable: str
    is_desired: bool

    def known_as(self) -> Variable:
        """The variable's row in the table; one that is not in it has no range, and the usual dead band."""
        return VARIABLES.get(self.variable) or Variable(self.variable, "", -math.inf, math.inf)


def _source(environment: str, category: str, topic: Topic) -> _Source | None:
    prefix = f"{environment}/{category}/"
    variable = topic.name.removeprefix(prefix)
    if not topic.name.startswith(prefix) or variable in _KEPT_BY_THE_RUNNER or len(topic.type.fields) != 1:
        return None
    return _Source(topic.name, environment, variable, category == "desired")


def _rounded(value: float | bool | str, name: str) -> float | bool | str:  # noqa: FBT001  a value, not a switch
    variable = VARIABLES.get(name)
    if variable is None or not isinstance(value, float):
        return value
    return round(value, variable.precision)
