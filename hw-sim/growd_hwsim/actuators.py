"""What outputs can move in a simulated chamber, and the faults of these parts."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

ACTUATORS: Final = (
    "valve",
    "fan",
    "heater",
    "cooler",
    "humidifier",
    "dehumidifier",
    "circulation",
    "water_heater",
    "water_cooler",
    "fill",
    "drain",
    "water_pump",
    "aeration",
    "irrigation",
    "nutrient_a",
    "nutrient_b",
    "nutrient_c",
    "ph_up",
    "ph_down",
)
DOOR: Final = "door"

WITHOUT_EFFECT: Final = "without_effect"
WELDED: Final = "welded"
WEAK: Final = "weak"
HELD_OPEN: Final = "held_open"
"""Kinds of faults. They are at an actuator or, the last one, at the door."""


class Defect(Protocol):
    """A fault that is there now."""

    @property
    def kind(self) -> str: ...
    @property
    def amount(self) -> float | None: ...


NO_FAULTS: Final[Mapping[str, Defect]] = MappingProxyType({})


class Actuators:
    """The level (0..1) at which each actuator of a chamber really works."""

    def __init__(self) -> None:
        self.levels = dict.fromkeys(ACTUATORS, 0.0)
        """By name, with the faults applied; another mapping after each change."""
        self.door_is_held_open = False
        self._commanded = dict(self.levels)
        self._faults = NO_FAULTS

    def command(self, name: str, level: float) -> None:
        """Drive an actuator. Raises ValueError for an unknown one or a level outside 0..1."""
        if name not in self._commanded:
            raise ValueError(f"the chamber has no actuator {name!r}, only {', '.join(ACTUATORS)}")
        if not 0.0 <= level <= 1.0:
            raise ValueError(f"actuator {name}: level must be 0..1, not {level}")
        self._commanded[name] = level
        if (real := self._real(name)) != self.levels[name]:
            self.levels = {**self.levels, name: real}

    def suffer(self, faults: Mapping[str, Defect]) -> None:
        """Have these faults, by actuator or door, and no others."""
        if faults != self._faults:
            self._faults = faults
            self.levels = {name: self._real(name) for name in ACTUATORS}
            self.door_is_held_open = DOOR in faults

    def _real(self, name: str) -> float:
        commanded, fault = self._commanded[name], self._faults.get(name)
        if fault is None:
            return commanded
        return {WITHOUT_EFFECT: 0.0, WELDED: 1.0, WEAK: commanded * (fault.amount or 0.0)}[fault.kind]
