"""How a device is: its state, told once on a topic and in the log when it changes."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from growd.bus.messages import DIAGNOSTIC_STATUS
from growd.control.topics import diagnostics

if TYPE_CHECKING:
    from growd.bus import Node
    from growd.clock import Clock

logger = logging.getLogger(__name__)


class State(StrEnum):
    """The states of a device."""

    STARTING = "starting"
    WARM_UP = "warm-up"
    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"


LEVELS: Final = {State.STARTING: 1, State.WARM_UP: 1, State.OK: 0, State.DEGRADED: 1, State.FAILED: 2}
TROUBLE: Final = (State.DEGRADED, State.FAILED)


class Health:
    """The state of one device, on `<environment>/diagnostics/<device>` as a diagnostic status.

    Published when the state changes. A failure is logged once, and its recovery once with its length.
    """

    def __init__(self, node: Node, environment: str, device: str, clock: Clock) -> None:
        self.state = State.STARTING
        self._device = f"{environment}/{device}"
        self._clock = clock
        self._since: float | None = None
        self._publisher = node.advertise(diagnostics(environment, device), DIAGNOSTIC_STATUS)
        self._publish("starting")

    def report(self, state: State, message: str = "") -> None:
        """Say how the device is now; `message` says why, where it is not ok."""
        if state is self.state:
            return
        self.state = state
        if state in TROUBLE:
            self._trouble(message)
        elif state is State.OK:
            self._recovered()
        self._publish(message or str(state))

    def _trouble(self, message: str) -> None:
        if self._since is None:
            self._since = self._clock.monotonic()
        logger.warning("%s is %s: %s", self._device, self.state, message)

    def _recovered(self) -> None:
        if self._since is not None:
            logger.info("%s is ok again after %.1f s", self._device, self._clock.monotonic() - self._since)
            self._since = None

    def _publish(self, message: str) -> None:
        self._publisher.publish({"level": LEVELS[self.state], "name": self._device, "message": message})
