"""The watch over the keeper of pins: it is asked often, so that a new one starts soon after it died."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from growd.control.errors import DEVICE_ERRORS
from growd.control.topics import EVENT, event, events
from growd.runtime.clock import until_beat
from growd.runtime.sentence import Sentence, problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.bus import Bus
    from growd.runtime.worker import Worker
    from growd_drivers.pins import KeptPins

logger = logging.getLogger(__name__)

PERIOD_S: Final = 0.5
SHOWN_S: Final = 3_600.0


class PinWatch:
    """Asks the keeper of `pins` in its `worker`. A new one is an event, and for an hour a problem."""

    def __init__(self, bus: Bus, environments: Iterable[str], pins: KeptPins, worker: Worker) -> None:
        self.node = bus.node("pins")
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._pins = pins
        self._worker = worker
        self._events = [self.node.advertise(events(each), EVENT) for each in environments]
        self._seen = pins.restarts
        self._restarted_at: float | None = None
        self.node.describe("pins", lambda: {"restarts": pins.restarts, "trouble": pins.trouble})
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Ask until cancelled."""
        was_well = True
        with self._liveness.heartbeat(self.node.name) as heart:
            while True:
                heart.beat()
                is_well = await self._answers()
                if self._pins.restarts != self._seen:
                    self._seen = self._pins.restarts
                    self._restarted_at = self._clock.monotonic()
                    if was_well:  # a keeper that never runs is reported once
                        self._report()
                was_well = is_well and self._pins.is_whole
                await self._clock.sleep(until_beat(self._clock, PERIOD_S))

    async def _answers(self) -> bool:
        try:
            await self._worker.run(self._pins.ping)
        except DEVICE_ERRORS as error:
            logger.debug("%s: %s", self.node.name, error)  # a restart is reported
            return False
        return True

    def _report(self) -> None:
        logger.error("%s", self._sentence)
        for each in self._events:
            each.publish(event("fault", "pins", self._sentence))

    @property
    def _sentence(self) -> Sentence:
        if self._pins.is_whole:
            text = f"the pin keeper failed ({self._pins.trouble}); a new one brought all pins to rest"
            return Sentence(text, "pin_keeper_restarted", reason=str(self._pins.trouble))
        text = (
            f"the pin keeper failed ({self._pins.trouble}): outputs on pins may be on, switch off their power"
        )
        return Sentence(text, "pins_may_be_on", reason=str(self._pins.trouble))

    def _problems(self) -> list[dict[str, Any]]:
        if self._restarted_at is None:
            return []
        if self._pins.is_whole and self._clock.monotonic() - self._restarted_at > SHOWN_S:
            return []
        return [problem(self._sentence, is_failure=True)]
