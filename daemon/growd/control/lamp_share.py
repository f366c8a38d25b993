"""How much of its full light the lamp gives, for controllers of what it warms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.bus.messages import Quality
from growd.control.topics import LIGHT_CHANNELS, desired, light_channels
from growd.variables import ILLUMINANCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd.bus import Bus


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
        last = self._bus.topics.get(light_channels(self._environment)).last
        if full <= 0 or last is None or last.quality is not Quality.OK:
            return 0.0
        levels = (last.value[LIGHT_CHANNELS[name]] ** self._gamma for name in self._mix)
        return float(min(1.0, sum(levels) / full))

    def is_night(self) -> bool:
        """Whether the lamp is dark; without a lamp, whether the set point of light is 0."""
        if self._mix:
            return self.share() <= 0
        last = self._bus.topics.get(desired(self._environment, ILLUMINANCE)).last
        return last is not None and last.quality is Quality.OK and last.value <= 0
