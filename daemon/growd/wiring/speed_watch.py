"""Whether this machine keeps up with the speed of the simulation."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from growd.bus import Bus

_log = logging.getLogger(__name__)

PAUSE_S: Final = 10.0  # real seconds between two measurements
STEPS: Final = 20  # of one second of the clock in each measurement
LATE: Final = 2.0


class SpeedWatch:
    """The node `simulator/speed`: measures how long a loop of one second takes on the simulated clock.

    From `LATE` s on, which is twice as long, it warns in `growd status` and, once, in the log: sensors are
    read and outputs are switched that much later than in a real chamber.
    """

    def __init__(self, bus: Bus, speed: float, *, pause_s: float = PAUSE_S) -> None:
        self.node = bus.node("simulator/speed")
        self._clock = bus.clock
        self._speed = speed
        self._pause = pause_s
        self._late = 1.0
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            was_late = self._late >= LATE
            self._late = await self._measured()
            if self._late >= LATE and not was_late:
                _log.warning("%s", self._sentence())

    async def _measured(self) -> float:
        began = self._clock.monotonic()
        for _ in range(STEPS):
            await self._clock.sleep(1.0)
        return (self._clock.monotonic() - began) / STEPS

    def _problems(self) -> list[dict[str, Any]]:
        return [{"text": self._sentence(), "is_failure": False}] if self._late >= LATE else []

    def _sentence(self) -> str:
        possible = max(1.0, self._speed / self._late)
        return (
            f"this machine is too slow for a simulation at {self._speed:g} times real time: a loop of 1 s "
            f"takes {self._late:.1f} s of simulated time; use --speed {possible:.0f} or less"
        )
