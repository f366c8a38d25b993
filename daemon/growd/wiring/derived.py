"""The variables that growd calculates in each environment, as configured."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from growd.bus.errors import UnknownNameError
from growd.config import chambers_of
from growd.control.derived.lamp_light import ChannelLight, LampLight
from growd.control.derived.node import Derivations
from growd.device_kinds import LUX_PER_UMOL, PHOTONS
from growd.variables import ILLUMINANCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber, Config
    from growd.control.interlocks.saved_states import Memory


def derivations_of(config: Config, bus: Bus, memory: Memory, zone: tzinfo | None) -> Iterator[Derivations]:
    """The node of each environment that has variables to calculate; `memory` keeps their sums."""
    for chamber in chambers_of(config):
        if chamber.derived:
            options = chamber.options.derived
            yield Derivations(
                bus,
                chamber.environment,
                chamber.derived,
                memory=memory,
                stale_after_s=chamber.stale_after_s,
                lamp=lamp_light(chamber),
                base_degc=options.base_temperature_degc,
                photoperiod_umol=options.photoperiod_umol,
                daylight_lux=partial(_elsewhere_lux, bus, chamber.environment),
                zone=zone,
            )


def lamp_light(chamber: Chamber) -> LampLight:
    """The light of the lamp of an environment, without channels if it has none."""
    light = chamber.options.light
    channels = {
        channel.name: ChannelLight(
            channel.photons or PHOTONS[channel.name],
            channel.lux_per_umol or LUX_PER_UMOL[channel.name],
            channel.mix,
        )
        for channel in (light.channel if light.enabled else ())
    }
    return LampLight(channels, light.gamma, light.minimum_duty, chamber.options.derived.daylight_lux_per_umol)


def _elsewhere_lux(bus: Bus, environment: str) -> float:
    """The light that is not of the lamp, by its controller; 0 without a lamp."""
    try:
        controller = bus.find_node(f"{environment}/controllers/{ILLUMINANCE}")
    except UnknownNameError:
        return 0.0
    return float(controller.detail("elsewhere_lux"))
