"""The topics of the configuration, declared before any device is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.bus import Bus
from growd.bus.errors import BusError, NameTakenError
from growd.bus.messages import MESSAGE_TYPES
from growd.config import Finding, chambers_of
from growd.control.topics import RESERVED, declare_environment
from growd.runtime.clock import RealClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config import Config


def declare_topics(config: Config, bus: Bus) -> None:
    """Declare the topics of each environment, and those of the section [topics]. Raises `BusError`."""
    _declare_environments(config, bus)
    for name, message_type in config.topics.items():
        bus.topics.declare(name, MESSAGE_TYPES[message_type], is_open=True)


def unfit_topics(config: Config) -> Iterator[Finding]:
    """Entries of [topics] whose name is invalid or belongs to growd."""
    bus = Bus(RealClock())
    _declare_environments(config, bus)
    for name, message_type in config.topics.items():
        environment, _, rest = name.removeprefix("/").partition("/")
        try:
            is_reserved = environment in config.chambers() and rest.partition("/")[0] in RESERVED
            if is_reserved or environment == "alerts":
                raise NameTakenError("topic", name)
            bus.topics.declare(name, MESSAGE_TYPES[message_type], is_open=True)
        except BusError as error:
            yield Finding(("topics", name), str(error))


def _declare_environments(config: Config, bus: Bus) -> None:
    for chamber in chambers_of(config):
        declare_environment(
            bus,
            chamber.environment,
            chamber.measured,
            (*chamber.derived, *chamber.seen),
            chamber.set_point_limits,
        )
