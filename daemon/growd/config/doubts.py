"""Options that are valid but probably a mistake: the findings become warnings, and growd starts with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.config.control import Interlock
from growd.config.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.findings import Source
    from growd.config.root import Config

VALVE: Final = "air_carbon_dioxide_valve_on"

_DOUBTFUL_FROM: Final = {
    "ceiling_ppm": 10_000.0,
    "valve_open_s": 1_200.0,
    "dose_s": 3_600.0,
    "no_rise_open_s": 1_800.0,
}
"""From these values on, a limit of the valve hardly protects anybody."""


def high_limits(config: Config, _: Source) -> Iterator[Finding]:
    """Limits of interlocks far above their defaults, where there is an output that they protect from."""
    for environment, chamber in config.chambers().items():
        if not any(relay.variable == VALVE for relay in chamber.relay):
            continue
        path = config.path(environment, "interlock")
        for option, most in _DOUBTFUL_FROM.items():
            value, default = getattr(chamber.interlock, option), getattr(Interlock(), option)
            if value >= most:
                reason = f"{value:g} is far above the default of {default:g}; set it below {most:g}"
                yield Finding((*path, option), reason)
