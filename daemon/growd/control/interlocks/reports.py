"""What clients, the log and the events are told of interlocks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType
from growd.control.topics import EVENT, event, events
from growd.runtime.sentence import Sentence, code_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd.bus import Node
    from growd.bus.topics import Publisher
    from growd.control.interlocks.base import Interlock
    from growd.runtime.clock import Clock

logger = logging.getLogger(__name__)

INTERLOCK: Final = MessageType(
    "growd/Interlock",
    (
        Field("tripped", Kind.BOOL),
        Field("reason", Kind.STRING),
        Field("needs_reset", Kind.BOOL),
        Field("since", Kind.FLOAT64, 0, unit="s"),
    ),
)
"""The state of an interlock. `since` is UNIX seconds."""


class Reports:
    """Publishes and logs how interlocks change. `publishers` has that of the state of each."""

    def __init__(
        self, node: Node, environment: str, clock: Clock, publishers: Mapping[str, Publisher]
    ) -> None:
        self._name = node.name
        self._clock = clock
        self._publishers = publishers
        self._events = node.advertise(events(environment), EVENT)
        self._reported: dict[str, str] = {}  # by interlock: the reason that was published
        self._said: dict[str, str] = {}  # by interlock: the reason of its last event
        self._since: dict[str, float] = {}
        self._quiet: set[str] = set()
        self._problems_said: set[str] = set()  # the interlocks whose problem was reported

    def has(self, interlock: Interlock) -> bool:
        """Whether it has a state already."""
        return interlock.name in self._reported

    def state(self, interlock: Interlock) -> dict[str, Any]:
        """Its state, as on its topic."""
        return {
            "tripped": interlock.has_tripped,
            "reason": interlock.reason,
            "needs_reset": interlock.needs_reset,
            "since": self._since[interlock.name],
        }

    def follow(self, interlock: Interlock) -> bool:
        """Report the state if it has changed; whether it has.

        Unless it is quiet at the start, also as an event and in the log.
        """
        name, reason = interlock.name, interlock.reason
        if self._reported.get(name) == reason:
            return False
        tripped = reason if interlock.has_tripped else ""
        before = self._said.get(name, "")
        self._reported[name] = reason
        if not (tripped and before):  # another reason is not another trip
            self._since[name] = self._clock.time()
        self._publishers[name].publish(self.state(interlock))
        self._said[name] = tripped
        if tripped and interlock.is_quiet:
            self._quiet.add(name)
        elif name in self._quiet and not tripped:
            self._quiet.discard(name)
        elif tripped or before:
            self._quiet.discard(name)
            hint = f"; {interlock.remedy}" if interlock.needs_reset else ""
            message = _tripped(interlock, tripped, hint) if tripped else Sentence("released", "released")
            self._events.publish(event("interlock", name, message))
            # a variable is unknown since a sensor has failed, which is the warning
            is_warning = tripped and code_of(tripped)["code"] != "variable_unknown"
            level = logging.WARNING if is_warning else logging.INFO
            if interlock.is_expected:  # such as a pause of the doses whenever the water stands still
                level = logging.DEBUG
            words = f"has tripped: {tripped}" if tripped else "is released"
            logger.log(level, "%s/%s %s%s", self._name, name, words, hint)
        return True

    def follow_problem(self, interlock: Interlock) -> None:
        """Report the begin or the end of a problem, as an event and in the log."""
        name, found = interlock.name, interlock.problem
        if bool(found) == (name in self._problems_said):
            return
        if found:
            self._problems_said.add(name)
            logger.warning("%s/%s: %s", self._name, name, found)
        else:
            self._problems_said.discard(name)
        message = found or Sentence("the problem is over", "problem_over")
        self._events.publish(event("interlock", name, message))


def _tripped(interlock: Interlock, reason: str, hint: str) -> Sentence:
    """What the event of a trip says, with `is_expected` if it is part of normal operation."""
    found = code_of(reason)
    fields = found["fields"] | ({"is_expected": True} if interlock.is_expected else {})
    return Sentence(f"{reason}{hint}", found["code"] or "tripped", **fields)
