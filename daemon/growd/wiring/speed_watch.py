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
RECOVERED: Final = 6  # measurements in a row that are not late, since the load of a machine comes and goes


class SpeedWatch:
    """The node `simulator/speed`: measures how long a loop of one second takes on the simulated clock.

    From `LATE` s on, which is twice as long, it warns in `growd status` and, once, in the log: sensors are
    read and outputs are switched that much later than in a real chamber. The warning ends, with a line in the
    log, after `RECOVERED` measurements that are not late.
    """

    def __init__(self, bus: Bus, speed: float, *, pause_s: float = PAUSE_S) -> None:
        self.node = bus.node("simulator/speed")
        self._clock = bus.clock
        self._speed = speed
        self._pause = pause_s
        self._late = 0.0  # of the last late measurement, 0 after the recovery
        self._in_time = 0  # measurements since
        self.node.describe("problems", self._problems)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await asyncio.sleep(self._pause)
            self._judge(await self._measured())

    def _judge(self, late: float) -> None:
        """Log the first late measurement, and the recovery."""
        if late >= LATE:
            was_late, self._late, self._in_time = bool(self._late), late, 0
            if not was_late:
                _log.warning("%s", self._sentence())
        elif self._late:
            self._in_time += 1
            if self._in_time == RECOVERED:
                self._late = 0.0
                _log.info("this machine keeps up with a simulation at %g times real time again", self._speed)

    async def _measured(self) -> float:
        began = self._clock.monotonic()
        for _ in range(STEPS):
            await self._clock.sleep(1.0)
        return (self._clock.monotonic() - began) / STEPS

    def _problems(self) -> list[dict[str, Any]]:
        return [{"text": self._sentence(), "is_failure": False}] if self._late else []

    def _sentence(self) -> str:
        possible = max(1.0, self._speed / self._late)
        return (
            f"this machine is too slow for a simulation at {self._speed:g} times real time: a loop of 1 s "
            f"takes {self._late:.1f} s of simulated time; use --speed {possible:.0f} or less"
        )
