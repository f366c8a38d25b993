"""From the bus to the outbox: which messages become data points."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from growd.bus.errors import NotKeptError, counted
from growd.bus.messages import Quality
from growd.store.errors import LocalStoreError
from growd.store.storage_rule import ChangeRule, StorageRule
from growd.variables import VARIABLES, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Subscription, Topic
    from growd.config import Store
    from growd.store.points import DataPoint, PointMaker

COMMANDED: Final = "commanded"
QUALITY: Final = "quality"
EVENT: Final = "event"
NOTE: Final = "note"
JOURNAL_NODE: Final = "store/journal"
"""The node that publishes entries of journals, which it stores itself."""

# The recipe runner stores these two itself, in one transaction with the run.
_STORED_BY_RUNNER: Final = frozenset({"recipe_start", "recipe_end"})
_HTTP_NODE: Final = "http"
_BANDS: Final = {"air_carbon_dioxide": 0.1}
"""Dead bands of commands that change with each dose. The doses are stored as commands of the switch."""
_DEPTH: Final = 1000
_IN_MEMORY: Final = (
    "it can't be written to the disk: {}; it waits in memory and is lost if growd is killed; "
    "a repeated request may store it twice"
)


class PointKeeper(Protocol):
    """Keeps points, such as an `Outbox`."""

    def add(self, point: DataPoint) -> None:
        """Keep a point."""

    async def flush(self) -> None:
        """Return once all points are durable. Raises `LocalStoreError`."""


class Recorder:
    """Makes points from messages on the bus, by the storage rules, and adds them to the outbox.

    It reads the topics `<environment>/<category>/<variable>` that exist when it is made and have messages of
    one value:

    - `measured`: messages of quality `ok`, rounded to the precision of the variable. Manual measurements have
      `is_manual` and are all stored. A change of the quality is a point of the category `quality` with the
      new quality as its value; the next value of quality `ok` is stored in any case.
    - `desired`: changes; of a ramp of a recipe only some; null when the set point is released.
      `is_manual` marks set points of clients, which are published again after a restart with their time, in
      case they were not stored before it.
    - `commanded`: by a rule, in the category `commanded`; null when the command ends. `is_manual` marks
      commands of clients, also while a controller repeats them.

    Each message on `<environment>/events` becomes a point of the category `event`: its variable is the kind,
    its value the source and the text. A note on `<environment>/notes` becomes an event `note`.

    Messages of the node `store/journal` are left out: `GrowersJournal` stores its entries.

    A client that sends a measurement or a note gets its answer once the point is durable. The point has the
    author (`by`), and a time in the past if the client gives one.
    """

    def __init__(
        self,
        bus: Bus,
        outbox: PointKeeper,
        maker: PointMaker,
        environments: Iterable[str],
        settings: Store | None = None,
    ) -> None:
        self.node = bus.node("recorder")
        self._bus = bus
        self._outbox = outbox
        self._maker = maker
        self._environments = tuple(environments)
        self._settings = settings
        self._rules: dict[str, StorageRule] = {}
        self._qualities: defaultdict[str, Quality] = defaultdict(lambda: Quality.OK)
        self._stores_values = True
        self._messages: Subscription | None = None
        self._failed = 0
        self._entry: tuple[Message, str] | None = None  # of a client, and its author
        makers = {
            "measured": self._of_measured,
            "desired": self._of_desired,
            COMMANDED: self._of_commanded,
            EVENT: self._of_event,
            NOTE: self._of_note,
        }
        self._sources = {source.topic: (source, makers[source.category]) for source in self._find_sources()}
        self._desired = {name: ChangeRule(each.as_variable()) for name, (each, _) in self._sources.items()}
        for name, (source, _) in self._sources.items():
            topic = bus.topics.get(name)
            if topic.is_open and source.category in {"measured", NOTE}:
                topic.keeper, topic.takes_past = self._make_durable, True
        self.node.describe("problems", self._problems)

    @property
    def lost(self) -> int:
        """Messages that could not be made into points, or came faster than they were read."""
        return self._failed + (self._messages.dropped if self._messages is not None else 0)

    def reconfigure(self, settings: Store, *, stores_values: bool = True) -> None:
        """Change the rules; the next value of each variable is stored.

        Without `stores_values` no measured values and commands are stored, but manual measurements.
        """
        self._settings = settings
        self._stores_values = stores_values
        self._rules.clear()

    async def run(self) -> None:
        """Record until cancelled, then record the messages that wait."""
        with (
            self.node.inbox(*self._sources, depth=_DEPTH) as messages,
            self._bus.liveness.heartbeat(self.node.name, is_idle=lambda: not len(messages)) as heart,
        ):
            self._messages = messages
            try:
                async for message in messages:
                    heart.beat()
                    self.node.attempt(self._record, message)
            finally:
                self._record_waiting(messages)

    def _record(self, message: Message) -> None:
        source, points = self._sources[message.topic]
        if message.node == JOURNAL_NODE:
            return
        try:
            for point in points(source, message):
                self._outbox.add(point)
        except Exception:
            self._failed += 1
            raise

    def _record_waiting(self, messages: Subscription) -> None:
        while (left := messages.get_nowait()) is not None:
            self.node.attempt(self._record, left)

    async def _make_durable(self, message: Message, who: str) -> str:
        """Return once the message of a client is durable. Raises `NotKeptError`.

        Concurrent calls share a write, since a flush writes all recorded points.
        """
        messages, failed = self._messages, self._failed
        if messages is None or messages.is_closed:
            raise NotKeptError("nothing is recorded while growd starts or stops; try again")
        self._entry = (message, who)  # the message still waits: nothing was awaited since it was published
        self._record_waiting(messages)
        self._entry = None
        if self._failed > failed:
            raise NotKeptError("it could not be recorded; growd's log says why")
        try:
            await self._outbox.flush()
        except LocalStoreError as error:
            raise NotKeptError(_IN_MEMORY.format(error)) from error
        return ""

    def _problems(self) -> list[dict[str, Any]]:
        if not self.lost:
            return []
        text, fields = f"{counted(self.lost, 'message')} could not be recorded", {"messages": self.lost}
        return [{"text": text, "is_failure": True, "code": "not_recorded", "fields": fields}]

    def _find_sources(self) -> list[_Source]:
        topics = [self._bus.topics.get(name) for name in self._bus.topics.names()]
        found = [_source(environment, topic) for environment in self._environments for topic in topics]
        return [source for source in found if source is not None]

    def _of_measured(self, source: _Source, message: Message) -> Iterator[DataPoint]:
        rule = self._rule_of(source)
        if message.quality is not self._qualities[source.topic]:
            self._qualities[source.topic] = message.quality
            rule.reset()
            yield self._point(source, str(message.quality), message, category=QUALITY)
        if message.quality is Quality.OK:
            # rounded first: the rule compares what is stored
            value = _rounded(message.value, source.variable)
            is_manual = message.node == _HTTP_NODE
            if is_manual or self._admits(rule, value):
                yield self._point(source, value, message, is_manual=is_manual)

    def _of_desired(self, source: _Source, message: Message) -> Iterator[DataPoint]:
        value = message.value if message.quality is Quality.OK else None
        is_manual = message.node in {_HTTP_NODE, f"{source.environment}/set_points"}
        repeats = message.node == f"{source.environment}/recipe_runner"  # others publish a change once
        rule = self._desired[source.topic]
        if rule.admits(value, repeats=repeats):
            message = msgspec.structs.replace(message, time=rule.moment(message.time))
            yield self._point(source, value, message, is_desired=True, is_manual=is_manual)

    def _of_commanded(self, source: _Source, message: Message) -> Iterator[DataPoint]:
        rule = self._rule_of(source)
        if message.quality is self._qualities[source.topic] is not Quality.OK:
            return
        self._qualities[source.topic] = message.quality
        is_manual = message.node == _HTTP_NODE or self._is_override(message.node)
        if message.quality is not Quality.OK:
            rule.reset()
            yield self._point(source, None, message, category=COMMANDED)
        elif self._admits(rule, value := _rounded(message.value, source.variable, 3)):
            yield self._point(source, value, message, category=COMMANDED, is_manual=is_manual)

    def _admits(self, rule: StorageRule, value: float | bool | str) -> bool:  # noqa: FBT001  a value
        return self._stores_values and rule.admits(value, self._bus.clock.monotonic())

    def _is_override(self, controller: str) -> bool:
        """Whether this controller repeats the command of a client."""
        left = self._bus.parameters.declared(f"{controller}/override_left")
        return left is not None and left.value > 0

    def _of_event(self, source: _Source, message: Message) -> Iterator[DataPoint]:
        event = message.value
        if event is not None:
            text = f"{event['source']}: {event['message']}"
            details = {"code": event["code"], **event["fields"]} if event["code"] else None
            yield self._maker.make(
                source.environment, event["kind"], text, message.time, category=EVENT, details=details
            )

    def _of_note(self, source: _Source, message: Message) -> Iterator[DataPoint]:
        yield self._point(source, message.value, message, category=EVENT, is_manual=True)

    def _rule_of(self, source: _Source) -> StorageRule:
        if source.topic not in self._rules:
            self._rules[source.topic] = StorageRule(
                source.as_variable(), self._settings, is_command=source.category == COMMANDED
            )
        return self._rules[source.topic]

    def _point(
        self,
        source: _Source,
        value: float | bool | str | None,  # noqa: FBT001  a value, not a switch
        message: Message,
        *,
        is_desired: bool = False,
        is_manual: bool = False,
        category: str = "",
    ) -> DataPoint:
        return self._maker.make(
            source.environment,
            source.variable,
            value,
            message.time,
            is_desired=is_desired,
            is_manual=is_manual,
            category=category,
            by=self._entry[1] if self._entry is not None and message is self._entry[0] else "",
            is_repeated=is_desired and is_manual,
        )


class _Source(msgspec.Struct, frozen=True):
    topic: str
    environment: str
    category: str
    variable: str

    def as_variable(self) -> Variable:
        """The variable, with the usual dead band and no range if it is not in the table.

        A command ranges from -1 to 1, with a dead band of a hundredth, or the one in `_BANDS`.
        """
        if self.category == COMMANDED:
            band = _BANDS.get(self.variable, 0.01)
            return Variable(self.variable, "fraction", -1, 1, 3, absolute_band=band, relative_band=0.0)
        return VARIABLES.get(self.variable) or Variable(self.variable, "", -math.inf, math.inf)


def _source(environment: str, topic: Topic) -> _Source | None:
    if not topic.name.startswith(f"{environment}/"):
        return None
    category, _, variable = topic.name.removeprefix(f"{environment}/").partition("/")
    if category == "events" and not variable:
        return _Source(topic.name, environment, EVENT, "")
    if category == "notes" and not variable:
        return _Source(topic.name, environment, NOTE, NOTE)
    is_value = len(topic.type.fields) == 1 and variable not in _STORED_BY_RUNNER
    if not is_value or not variable or category not in {"measured", "desired", COMMANDED}:
        return None
    return _Source(topic.name, environment, category, variable)


def _rounded(
    value: float | bool | str,  # noqa: FBT001  a value, not a switch
    name: str,
    decimals: int | None = None,
) -> float | bool | str:
    variable = VARIABLES.get(name)
    if decimals is None and variable is not None:
        decimals = variable.precision
    return round(value, decimals) if isinstance(value, float) and decimals is not None else value
