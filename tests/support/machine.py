"""A simulated machine on a time that passes only while someone sleeps."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from growd_hwsim.chamber import ChamberParameters, SimulatedChamber
from growd_hwsim.hardware import open_simulated

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_hwsim.hardware import SimulatedHardware


class SleepingTime:
    """`sleep` and `monotonic` for drivers and simulated chips alike; takes no real time."""

    def __init__(self, now: float = 5_000.0) -> None:
        self.now = now

    def advance(self, seconds: float) -> None:
        """What a test calls: time passes."""
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        """What a driver calls."""
        self.advance(seconds)

    def monotonic(self) -> float:
        return self.now


def simulated(time: SleepingTime, *, daylight_lux: float = 0.0, **options: Any) -> SimulatedHardware:
    """A machine in a chamber without daylight, unless asked for."""
    chamber = SimulatedChamber(time.monotonic, ChamberParameters(daylight_lux=daylight_lux))
    return open_simulated(chamber, sleep=time.sleep, monotonic=time.monotonic, **options)


def until(condition: Callable[[], bool]) -> None:
    """Let other threads run until `condition` holds."""
    never = threading.Event()
    for _ in range(10_000):
        if condition():
            return
        never.wait(0.001)
    raise AssertionError("what was waited for did not come")
