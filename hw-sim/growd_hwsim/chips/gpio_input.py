"""A simulated contact between a pin and ground, or between a pin and 3.3 V."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd_hwsim.chip import SENSORS, Chip

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.pins import Pull


class SimulatedContact(Chip):
    """A contact at a pin, which has its active level (`active_high` or low) while `truth()` is 1.

    With a pull resistor to that level it is a normally closed contact, which opens then: a broken wire looks
    active. Otherwise it closes then, and a broken wire looks inactive.
    """

    name = "gpio"
    faults = ("absent", "hang", "refused", "frozen")

    def __init__(self, truth: Callable[[], float], *, active_high: bool, pull: Pull = "none") -> None:
        self._truth = truth
        self._is_normally_closed = pull == ("up" if active_high else "down")
        self._closed_level = active_high is not self._is_normally_closed

    def level(self) -> bool | None:
        """The level that it gives the pin, None while it is open."""
        is_closed = (self._truth() >= 1) is not self._is_normally_closed
        return self._closed_level if is_closed else None


SENSORS[SimulatedContact.name] = SimulatedContact
