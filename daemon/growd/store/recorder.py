"""The recorder: from topics to data points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.bus.messages import Quality
from growd.store.points import ChangeRule, StorageRule
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.store.outbox import Outbox
    from growd.store.points import PointMaker

DEPTH: Final = 10_000  # messages; the recorder never waits for anything, so this is for a busy loop
CLIENT: Final = "http"  # the node that publishes what clients post


class Recorder:
    """Makes points of what is on `<environment>/measured/...` and `<environment>/desired/...`.

    Measured values are stored by the variable's storage rule, rounded to its precision, and only when their
    quality is ok. Set points are stored when they change; one that was released and comes back is a change.
    The start and the end of a recipe are not recorded here: the runner's journal stores them with the run.
    A measured value that a client posted is marked `is_manual`.

    Intervals in seconds of the bus's clock.
    """

    def __init__(
        self,
        bus: Bus,
        outbox: Outbox,
        maker: PointMaker,
        environment: str,
        *,
        minimum_interval: float = 5.0,
        maximum_interval: float = 600.0,
    ) -> None:
        self.node = bus.node(f"{environment}/recorder")
        self._clock = bus.clock
        self._outbox = outbox
        self._maker = maker
        self._environment = environment
        self._measured: dict[str, StorageRule] = {}
        self._desired: dict[str, ChangeRule] = {}
        for variable in VARIABLES.values():
            self._desired[f"{environment}/desired/{variable.name}"] = ChangeRule()
            rule = StorageRule(variable, minimum_interval=minimum_interval, maximum_interval=maximum_interval)
            self._measured[f"{environment}/measured/{variable.name}"] = rule
        there = set(bus.topics.names())
        topics = [name for name in (*self._measured, *self._desired) if name in there]
        # from now on, and not from the start of `run`: what is published meanwhile is not lost
        self._messages = self.node.subscribe(*topics, depth=DEPTH)

    async def run(self) -> None:
        """Record until cancelled; what was published before that is recorded still."""
        try:
            async for message in self._messages:
                self._record(message)
        finally:
            while (left := self._messages.get_nowait()) is not None:
                self._record(left)

    def _record(self, message: Message) -> None:
        if message.topic in self._measured:
            self._record_measured(message)
        else:
            self._record_desired(message)

    def _record_measured(self, message: Message) -> None:
        rule = self._measured[message.topic]
        if message.quality is not Quality.OK or not rule.admits(message.value, self._clock.monotonic()):
            return
        value = round(message.value, rule.variable.precision)
        self._add(rule.variable.name, value, message, is_desired=False)

    def _record_desired(self, message: Message) -> None:
        if message.quality is not Quality.OK:
            self._desired[message.topic] = ChangeRule()
        elif self._desired[message.topic].admits(message.value):
            self._add(message.topic.rpartition("/")[2], message.value, message, is_desired=True)

    def _add(self, variable: str, value: float, message: Message, *, is_desired: bool) -> None:
        manual = not is_desired and message.node == CLIENT
        self._outbox.add(
            self._maker.make(
                self._environment, variable, value, message.time, is_desired=is_desired, is_manual=manual
            )
        )
