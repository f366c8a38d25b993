"""A simulated switch between a pin and ground, or between a pin and 3.3 V."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd_hwsim.chip import SENSORS, Chip

if TYPE_CHECKING:
    from collections.abc import Callable


class SimulatedSwitch(Chip):
    """A switch that is closed while `truth()` is 1. It pulls the pin high (`active_high`) or low."""

    name = "gpio"
    faults = ("absent", "hang", "refused", "frozen")

    def __init__(self, truth: Callable[[], float], *, active_high: bool) -> None:
        self._truth = truth
        self._active_high = active_high

    def level(self) -> bool | None:
        """The level that it gives the pin, None while it is open."""
        return self._active_high if self._truth() >= 1 else None


SENSORS[SimulatedSwitch.name] = SimulatedSwitch
