"""From illuminance to photons: lux to PPFD for a lamp of several channels, and for daylight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

DAYLIGHT_LUX_PER_UMOL: Final = 54.0
"""Thimijan and Heins (1983, HortScience 18:818)."""


class ChannelLight(msgspec.Struct, frozen=True):
    """The light of a channel: photons at full level, relative to other channels, and lux per umol/m2/s."""

    photons: float
    lux_per_umol: float
    mix: float = 1.0


class LampLight(msgspec.Struct, frozen=True):
    """The light of a lamp whose levels become duty cycles by `gamma` and `minimum_duty`, and of daylight."""

    channels: Mapping[str, ChannelLight] = msgspec.field(default_factory=dict)
    gamma: float = 1.0
    minimum_duty: float = 0.0
    daylight_lux_per_umol: float = DAYLIGHT_LUX_PER_UMOL

    @property
    def usual_levels(self) -> dict[str, float]:
        """The levels of the whole lamp at full light."""
        return {name: channel.mix for name, channel in self.channels.items()}

    def lux_per_umol(self, levels: Mapping[str, float]) -> float:
        """The factor of the lamp alone at these levels; that of daylight while it is dark."""
        photons = {name: self._photons(name, levels.get(name, 0.0)) for name in self.channels}
        total = sum(photons.values())
        if not total:
            return self.daylight_lux_per_umol
        return sum(self.channels[name].lux_per_umol * part for name, part in photons.items()) / total

    def ppfd(self, lux: float, daylight_lux: float, levels: Mapping[str, float]) -> float:
        """The PPFD (umol/m2/s) of `lux`, of which `daylight_lux` is not of the lamp."""
        daylight = min(max(0.0, daylight_lux), lux)
        return daylight / self.daylight_lux_per_umol + (lux - daylight) / self.lux_per_umol(levels)

    def share(self, levels: Mapping[str, float]) -> float:
        """The photons at these levels as a share of those at full light."""
        full = sum(self._photons(name, level) for name, level in self.usual_levels.items())
        return (
            sum(self._photons(name, levels.get(name, 0.0)) for name in self.channels) / full if full else 0.0
        )

    def lux(self, ppfd: float, daylight_ppfd: float) -> float:
        """The illuminance of a PPFD, of which `daylight_ppfd` is not of the lamp."""
        daylight = min(max(0.0, daylight_ppfd), ppfd)
        factor = self.lux_per_umol(self.usual_levels)
        return daylight * self.daylight_lux_per_umol + (ppfd - daylight) * factor

    def _photons(self, name: str, level: float) -> float:
        if level <= 0.0:
            return 0.0
        duty = self.minimum_duty + (1.0 - self.minimum_duty) * level**self.gamma
        return float(self.channels[name].photons * duty)
