"""A switch on one GPIO pin: a door contact, a float switch, an auxiliary contact of a relay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd_drivers.errors import SettingError
from growd_drivers.pins import check_pin, refusals

if TYPE_CHECKING:
    from growd_drivers.pins import Pins, Pull


@dataclass(frozen=True)
class GpioInputSample:
    """1 while the pin has its active level, else 0."""

    is_active: float


class GpioInput:
    """An input on a BCM pin, whose value is 1 at the level `active` ("high" or "low").

    `pull` is the resistor on the pin ("up", "down" or "none"). A change of the level counts after
    `debounce_s` seconds. A pin cannot tell a broken wire from an open contact. The constructor does not claim
    the pin; each `read` does if it is not claimed yet.
    """

    def __init__(
        self,
        pins: Pins,
        pin: int,
        *,
        name: str = "input",
        active: str = "low",
        pull: Pull = "up",
        debounce_s: float = 0.05,
    ) -> None:
        check_pin(pin, owner=name, device=name)
        if active not in ("high", "low"):
            raise SettingError(f"{name}: active must be high or low, not {active}", device=name)
        self._pins = pins
        self._pin = pin
        self._name = name
        self._active_level = int(active == "high")
        self._pull = pull
        self._debounce_s = debounce_s
        self._is_claimed = False

    def read(self) -> GpioInputSample:
        """The present state. Raises `HardwareUnavailableError` if the kernel refuses the pin."""
        with refusals(self._name, self._pin, "read"):
            if not self._is_claimed:
                self._pins.claim_input(self._pin, pull=self._pull, debounce_s=self._debounce_s)
            self._is_claimed = False  # also if this fails: a new keeper has no inputs
            level = self._pins.input(self._pin)
            self._is_claimed = True
        return GpioInputSample(float(level == self._active_level))
