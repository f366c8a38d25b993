"""The messages that are due: what has changed since it was last published on this connection."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from growd.runtime.sentence import encode
from growd_home.discovery import NO_RECIPE
from growd_home.messages import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from growd.status.model import OpenAlert, Status
    from growd_home.discovery import Discovery
    from growd_home.layout import HomePlace, TopicNames

_MOST_EVENTS: Final = 50  # that wait for a connection; a further one takes the place of the oldest


class Outgoing(NamedTuple):
    """A message to publish."""

    topic: str
    body: bytes
    retain: bool


class Outbound:
    """Remembers what the broker has, and makes the messages that it does not have.

    All are retained but events. `selected` has the chosen recipes by environment; None: none can be chosen.
    """

    def __init__(
        self,
        topics: TopicNames,
        places: Sequence[HomePlace],
        discovery: Discovery | None,
        *,
        selected: dict[str, str] | None,
    ) -> None:
        self._topics = topics
        self._places = places
        self._discovery = discovery
        self._selected = selected
        self._recipes: list[str] = []
        self._announced: dict[str, dict[str, Any]] | None = None  # made when they are needed
        self._published: dict[str, bytes] = {}  # by topic; empty: to be published again
        self._gone: set[str] = set()  # topics of retained messages that have to be removed
        self._stale: dict[str, dict[str, Any]] = {}  # components of an earlier configuration, by topic
        self._events: deque[bytes] = deque(maxlen=_MOST_EVENTS)
        self._alerts: dict[str, OpenAlert] | None = None

    @property
    def recipes(self) -> list[str]:
        """The ids of the recipes that can be chosen."""
        return self._recipes

    @recipes.setter
    def recipes(self, recipes: list[str]) -> None:
        self._recipes, self._announced = recipes, None

    def forget(self) -> None:
        """Make all messages again."""
        self._published = dict.fromkeys(self._published, b"")

    def forget_topic(self, topic: str) -> None:
        """Make the message of this topic again."""
        if topic in self._published:
            self._published[topic] = b""

    def note(self, kind: str, text: str, **more: Any) -> None:
        """Publish an event with the next messages."""
        self._events.append(encode({"event_type": kind, "text": text, **more}))

    def compare(self, topic: str, body: bytes) -> bool:
        """Take note of a retained discovery message of this growd; whether something in it is gone."""
        earlier = {
            key: each
            for key, each in _components(body).items()
            if len(each) > 1 and isinstance(each.get("platform"), str)
        }
        present = self._announcements().get(topic)
        stale = earlier.keys() - (present["components"].keys() if present is not None else ())
        states = {str(earlier[key].get("state_topic", "")) for key in stale}
        self._gone |= {each for each in states if each.startswith(self._topics(""))}
        if present is None:
            self._gone.add(topic)
        elif stale:
            self._stale[topic] = {key: {"platform": earlier[key]["platform"]} for key in stale}
            self._announced = None
        return present is None or bool(stale)

    def due(self, status: Status) -> Iterator[Outgoing]:
        """The messages that are due, events last. Those of states count as published."""
        self._note_alerts(status.alerts)
        documents = self._announcements() | self._state(status)
        self._gone = (self._gone | self._published.keys()) - documents.keys()
        for topic in sorted(self._gone):
            yield Outgoing(topic, b"", retain=True)
        for topic, document in documents.items():
            compared = encode({**document, "time": 0} if "time" in document else document)
            if self._published.get(topic) != compared:
                self._published[topic] = compared
                yield Outgoing(topic, encode(document), retain=True)
        for event in tuple(self._events):
            yield Outgoing(self._topics("event"), event, retain=False)

    def acknowledge(self, messages: Iterable[Outgoing]) -> None:
        """The broker has these: events and removals are not published again."""
        for each in messages:
            if not each.retain:
                with contextlib.suppress(ValueError):  # a newer event may have taken its place
                    self._events.remove(each.body)
            elif not each.body:
                self._gone.discard(each.topic)
                self._published.pop(each.topic, None)

    def _state(self, status: Status) -> dict[str, dict[str, Any]]:
        found = {self._topics(*names): each for names, each in state_of(status, self._places).items()}
        if self._selected is not None:
            running = {each.environment: each.recipe_id for each in status.recipes}
            for place in self._places:
                chosen = self._selected.get(place.environment) or running.get(place.environment, "")
                shown = chosen if chosen in self.recipes else NO_RECIPE
                found[self._topics(place.environment, "recipe", "selected")] = {"recipe_id": shown}
        return found

    def _announcements(self) -> dict[str, dict[str, Any]]:
        """The discovery messages by topic, with what removes the components that are gone."""
        if self._announced is None:
            found = {} if self._discovery is None else self._discovery.messages(self._places, self._recipes)
            for topic, stale in self._stale.items():
                found[topic] = {**found[topic], "components": found[topic]["components"] | stale}
            self._announced = found
        return self._announced

    def _note_alerts(self, alerts: list[OpenAlert]) -> None:
        """Note an event for each alert that has begun or ended since the last call; none at the first one."""
        present = {each.id: each for each in alerts}
        known, self._alerts = self._alerts, present
        if known is None:
            return
        for each in present.keys() - known.keys():
            self.note(present[each].severity, present[each].text, rule=present[each].rule)
        for each in known.keys() - present.keys():
            self.note("ended", known[each].text, rule=known[each].rule)


def _components(body: bytes) -> dict[str, dict[str, Any]]:
    """The components of a discovery message, none of one that is not sound."""
    try:
        return msgspec.convert(msgspec.json.decode(body)["components"], dict[str, dict[str, Any]])
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError):
        return {}
