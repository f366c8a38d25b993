"""Light of lamps and daylight in the simulated chamber."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from growd_hwsim.parameters import ChamberParameters


class Lit(NamedTuple):
    """What lamps give, with these parameters."""

    parameters: ChamberParameters
    ppfd_umol_m2_s: float
    """At leaf height."""
    power_w: float
    """All of it becomes heat."""
    illuminance_lux: float
    """At the sensor."""


class Lamps:
    """The lamp's channels, each at a fraction (0..1) of its full power."""

    def __init__(self, p: ChamberParameters) -> None:
        self._fractions = dict.fromkeys(p.lamps, 0.0)
        self._lit = Lit(p, 0.0, 0.0, 0.0)

    def set(self, channel: str, fraction: float) -> None:
        """Light a channel. Raises ValueError for an unknown one or a fraction outside 0..1."""
        if channel not in self._fractions:
            known = ", ".join(sorted(self._fractions))
            raise ValueError(f"the chamber has no lamp {channel!r}, only {known}")
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"lamp {channel}: fraction must be 0..1, not {fraction}")
        self._fractions[channel] = fraction
        self._lit = self._sum(self._lit.parameters)

    def lit(self, p: ChamberParameters) -> Lit:
        """The light of all channels, calculated again after a change."""
        if p is not self._lit.parameters:
            self._lit = self._sum(p)
        return self._lit

    def ppfd_by_channel(self, p: ChamberParameters) -> dict[str, float]:
        """PPFD of each channel at leaf height."""
        scale = p.utilisation / p.growing_area_m2
        return {
            channel: fraction * p.lamps[channel].power_w * p.lamps[channel].efficacy_umol_j * scale
            for channel, fraction in self._fractions.items()
        }

    def _sum(self, p: ChamberParameters) -> Lit:
        photons = self.ppfd_by_channel(p)
        ppfd = sum(photons.values())
        power = sum(fraction * p.lamps[channel].power_w for channel, fraction in self._fractions.items())
        lux = sum(p.lamps[channel].lux_per_umol * umol for channel, umol in photons.items())
        return Lit(p, ppfd, power, lux)


def daylight_lux(p: ChamberParameters, hour: float) -> float:
    """Daylight in the chamber at an hour of the day: half a sine wave from sunrise to sunset."""
    if not p.sunrise_h < hour < p.sunset_h:
        return 0.0
    return p.daylight_lux * math.sin(math.pi * (hour - p.sunrise_h) / (p.sunset_h - p.sunrise_h))
