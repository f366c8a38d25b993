"""The state and counters of a device, on topics, in the log and as node information."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import DIAGNOSTIC_STATUS, MessageType
from growd.control.topics import EVENT, counters, diagnostics, event, events
from growd.runtime.sentence import Sentence, code_of
from growd.runtime.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.bus import Node
    from growd.runtime.clock import Clock

logger = logging.getLogger(__name__)

COUNTERS_S: Final = 60.0
"""Interval of the counters while the state does not change, in seconds of the clock."""


class State(StrEnum):
    """The states of a device."""

    STARTING = "starting"
    WARM_UP = "warm-up"
    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"


LEVELS: Final = {State.STARTING: 1, State.WARM_UP: 1, State.OK: 0, State.DEGRADED: 1, State.FAILED: 2}

DEVICE_COUNTERS: Final = MessageType(
    "growd/DeviceCounters",
    (
        Field("successes", Kind.INT64, 0),
        Field("failures", Kind.INT64, 0),
        Field("outages", Kind.INT64, 0),
        Field("outage_seconds", Kind.FLOAT64, 0),
        Field("last_error", Kind.STRING),
        Field("last_error_time", Kind.FLOAT64, 0),
    ),
)
"""Counters since growd started. An outage is a time in the state failed. `last_error_time` is UNIX seconds, 0
without an error."""


class Health:
    """The state of one device, on `<environment>/diagnostics/<device>` as a diagnostic status.

    The state is published when it changes, the counters then and each minute on the topic's `/counters`. A
    failure and its recovery are logged once each, and are events. The node information `device` has it all.
    Messages may be of drivers and devices: each becomes one printable line. `variables` are what it measures.
    """

    def __init__(
        self, node: Node, environment: str, device: str, clock: Clock, variables: Iterable[str] = ()
    ) -> None:
        self.state = State.STARTING
        self._name = device
        self._device = f"{environment}/{device}"
        self._fields = {"environment": environment, "device": device}
        self._clock = clock
        self._variables = list(variables)
        self._message = "starting"
        self._code = ""
        self._since = clock.time()
        self._trouble_since: float | None = None
        self._failed_since: float | None = None
        self._is_logged = False
        self._counted = {"successes": 0, "failures": 0, "outages": 0}
        self._outage_s = 0.0
        self._last_error = ("", 0.0)
        self._counters_at = clock.monotonic()
        self._status = node.advertise(diagnostics(environment, device), DIAGNOSTIC_STATUS)
        self._counters = node.advertise(counters(environment, device), DEVICE_COUNTERS)
        self._events = node.advertise(events(environment), EVENT)
        node.describe("device", self.information)
        self._publish()

    def succeeded(self) -> None:
        """The call succeeded."""
        self._counted["successes"] += 1
        self._set_state(State.OK, "ok")

    def warming_up(self, message: str) -> None:
        """The device answers, but has no reading yet."""
        self._code = "device_not_ready"
        self._set_state(State.WARM_UP, one_line(message))

    def failed_once(self, message: str) -> None:
        """A first failure: counted, not logged."""
        message = self._failed_with(message)
        if self.state is not State.FAILED:
            self._set_state(State.DEGRADED, message)

    def degraded(self, message: str) -> None:
        """The call succeeded in part."""
        message = self._failed_with(message)
        self._set_state(State.DEGRADED, message)
        self._log_trouble(message)

    def failed(self, message: str) -> None:
        """The device has failed."""
        message = self._failed_with(message)
        if self.state is not State.FAILED:
            self._is_logged = False  # worse than a logged degradation
            self._counted["outages"] += 1
            self._publish_event("fault", Sentence(message, self._code or "device_failed", device=self._name))
        self._set_state(State.FAILED, message)
        if self._failed_since is None:
            self._failed_since = self._clock.monotonic()
        self._log_trouble(message)

    def information(self) -> dict[str, Any]:
        """The state, since when (UNIX seconds), why, and the counters."""
        return {
            "name": self._device,
            "state": str(self.state),
            "since": self._since,
            "message": self._message,
            "code": self._code,
            "counters": self._counts(),
            "variables": self._variables,
        }

    def _failed_with(self, message: str) -> str:
        """Count a failure. Returns the message in one line."""
        code = code_of(message)["code"]
        self._code = code if code.startswith("device_") or not code else f"device_{code}"
        message = one_line(message)
        self._counted["failures"] += 1
        self._last_error = (message, self._clock.time())
        if self._trouble_since is None:
            self._trouble_since = self._clock.monotonic()
        return message

    def _set_state(self, state: State, message: str) -> None:
        if state is self.state:
            self._message = message
            if self._clock.monotonic() - self._counters_at >= COUNTERS_S:
                (self._publish_counters if state is State.OK else self._publish)()
            return
        if self._failed_since is not None:  # any other state ends the outage
            lasted = self._clock.monotonic() - self._failed_since
            self._outage_s += lasted
            self._failed_since = None
            words = f"{state} after {lasted:.1f} s"
            self._publish_event("recovery", Sentence(words, "recovered", lasted=round(lasted, 1), unit="s"))
        self.state, self._message, self._since = state, message, self._clock.time()
        if state is State.OK:
            self._code = ""
            self._log_recovery()
        self._publish()

    def _publish_event(self, kind: str, message: str) -> None:
        self._events.publish(event(kind, self._name, message))

    def _log_trouble(self, message: str) -> None:
        if not self._is_logged:
            self._is_logged = True
            words = "has failed" if self.state is State.FAILED else f"is {self.state}"
            logger.warning("%s %s: %s", self._device, words, message, extra=self._fields)

    def _log_recovery(self) -> None:
        if self._is_logged and self._trouble_since is not None:
            lasted = self._clock.monotonic() - self._trouble_since
            logger.info("%s works again after %.1f s", self._device, lasted, extra=self._fields)
        self._is_logged = False
        self._trouble_since = None

    def _publish(self) -> None:
        self._status.publish({"level": LEVELS[self.state], "name": self._device, "message": self._message})
        self._publish_counters()

    def _publish_counters(self) -> None:
        self._counters_at = self._clock.monotonic()
        self._counters.publish(self._counts())

    def _counts(self) -> dict[str, Any]:
        lasting = 0.0 if self._failed_since is None else self._clock.monotonic() - self._failed_since
        message, time = self._last_error
        return {
            **self._counted,
            "outage_seconds": self._outage_s + lasting,
            "last_error": message,
            "last_error_time": time,
        }
