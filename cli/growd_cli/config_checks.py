"""Checks of the configuration, for `load`, that need the wiring or this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.config import ConfigError, Finding
from growd.host.machine import model_of_this_machine
from growd.wiring.chambers_node import unfit_topics
from growd_alerts.checks import faults_of_alerts
from growd_cli.config_doubts import DOUBTS as DEVICE_DOUBTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config import Config, Source
    from growd.config.reading import Doubt


def _unknown_time_zone(config: Config) -> Iterator[Finding]:
    try:
        config.environment.zone()
    except ConfigError:
        name = config.environment.time_zone
        yield Finding(("environment", "time_zone"), f'{name!r} is not known here; one is "Europe/Berlin"')


def _simulated_unasked(config: Config, source: Source) -> Iterator[Finding]:
    """A configuration file that does not say whether the hardware is real or simulated."""
    if source.path is not None and config.simulator.enabled and "simulator" not in source.values:
        model = model_of_this_machine()
        here = f"this {model}" if model else "this machine"
        reason = f"is not set, so the hardware is SIMULATED; set it to false for the hardware of {here}"
        yield Finding(("simulator", "enabled"), f"{reason}, or to true for the simulation")


DEVICE_CHECKS: Final = (unfit_topics, faults_of_alerts, _unknown_time_zone)
"""They find what is invalid."""

DOUBTS: Final[tuple[Doubt, ...]] = (_simulated_unasked, *DEVICE_DOUBTS)
"""They find what is valid but probably a mistake; `growd check`, the log and `growd status` show warnings."""
