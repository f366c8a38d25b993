"""What control loops learn of the chamber: what outputs really did, the lamp, and the air of the room."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from growd.control.derived.psychrometrics import saturation_pressure_kpa
from growd.control.topics import LIGHT_CHANNELS, OUTPUT_LEVEL, desired, light_channels, measured, output_level
from growd.loops import FRESH_AIR_PPM
from growd.variables import (
    CARBON_DIOXIDE,
    HUMIDITY,
    ILLUMINANCE,
    ROOM_HUMIDITY,
    ROOM_TEMPERATURE,
    TEMPERATURE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from growd.bus import Bus
    from growd.bus.messages import Message


class Applied:
    """The real level of the outputs that raise a variable (counted up to 1) and lower it (-1).

    What lowers it counts only while the loop asks for it: run by somebody else it is a disturbance.
    """

    def __init__(self, bus: Bus, environment: str, raises: Sequence[str], lowers: Sequence[str]) -> None:
        self._shares: dict[str, float] = {}
        self._asks_for_lowering = False
        for names, sign in ((raises, 1.0), (lowers, -1.0)):
            for name in names:
                topic = bus.topics.declare(output_level(environment, name), OUTPUT_LEVEL).name
                self._shares[topic] = sign / len(names)
        self._levels = dict.fromkeys(self._shares, 0.0)
        self._since = self._asked = bus.clock.monotonic()
        self._sum = 0.0

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose messages it takes."""
        return tuple(self._shares)

    @property
    def is_on(self) -> bool:
        """Whether any of the outputs is on, whoever asked for it."""
        return any(self._levels.values())

    def take(self, message: Message, now: float) -> None:
        """Take the level of an output. A failed one counts as off."""
        self._add_up(now)
        self._levels[message.topic] = message.known or 0.0

    def asks_for_lowering(self, asks: bool, now: float) -> None:  # noqa: FBT001  its name says it
        """Whether the loop asks for the outputs that lower it from now on."""
        self._add_up(now)
        self._asks_for_lowering = asks

    def since_last(self, now: float) -> float | None:
        """The average since the last call; None without any output."""
        self._add_up(now)
        seconds, given = now - self._asked, self._sum
        self._asked, self._sum = now, 0.0
        if not self._shares:
            return None
        return given / seconds if seconds > 0 else self._level()

    def _add_up(self, now: float) -> None:
        self._sum += self._level() * (now - self._since)
        self._since = now

    def _level(self) -> float:
        counted = {topic: each for topic, each in self._shares.items() if each > 0 or self._asks_for_lowering}
        return math.fsum(share * self._levels[topic] for topic, share in counted.items())


class LampShare:
    """The lamp of an environment. `mix` has the level of each channel at full light, empty without a lamp."""

    def __init__(
        self, bus: Bus, environment: str, mix: Mapping[str, float] | None = None, gamma: float = 1.0
    ) -> None:
        self._bus = bus
        self._environment = environment
        self._mix = dict(mix or {})
        self._gamma = gamma

    def share(self) -> float:
        """Its light and heat as a share of full light, 0..1; 0 while it is unknown."""
        full = sum(self._mix.values())
        present = self._bus.topics.get(light_channels(self._environment)).known
        if full <= 0 or present is None:
            return 0.0
        levels = (present[LIGHT_CHANNELS[name]] ** self._gamma for name in self._mix)
        return float(min(1.0, sum(levels) / full))

    def is_night(self) -> bool:
        """Whether the lamp is dark; without a lamp, whether the set point of light is 0."""
        if self._mix:
            return self.share() <= 0
        wanted = self._bus.topics.get(desired(self._environment, ILLUMINANCE)).known
        return wanted is not None and wanted <= 0


class FreshAir:
    """The lowest values that an exchange of air reaches, from the measured air of the room.

    Without a sensor there the temperature and humidity of the room are not known, and a fan may run in vain.
    """

    def __init__(self, bus: Bus, environment: str) -> None:
        self._bus = bus
        self._environment = environment

    def floor(self, variable: str) -> float:
        """The lowest value of `variable` that fans can reach; minus infinity if it is not known."""
        if variable == CARBON_DIOXIDE:
            return FRESH_AIR_PPM
        room = self._value(ROOM_TEMPERATURE)
        if room is None or variable not in (TEMPERATURE, HUMIDITY):
            return -math.inf
        if variable == TEMPERATURE:
            return room
        humidity, inside = self._value(ROOM_HUMIDITY), self._value(TEMPERATURE)
        if humidity is None or inside is None:
            return -math.inf
        return humidity * saturation_pressure_kpa(room) / saturation_pressure_kpa(inside)

    def helps(self, variable: str) -> bool:
        """Whether a fan can lower `variable` now, as far as that is known."""
        value = self._value(variable)
        return value is None or value > self.floor(variable)

    def _value(self, variable: str) -> float | None:
        value: float | None = self._bus.topics.get(measured(self._environment, variable)).known
        return value
