"""The names of topics, and what an environment has to publish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.variables import ILLUMINANCE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd.config import Chamber

ONLINE: Final = b"online"
OFFLINE: Final = b"offline"
ACTIONS: Final = ("start", "stop", "pause", "resume")
"""What can be done to a recipe."""


@dataclass(frozen=True)
class HomePlace:
    """An environment: its variables, set points with their lowest and highest value, and outputs.

    `outputs` has the variable of each output by name, `levels` the variables that can be commanded by hand.
    No controller drives the outputs of the variables in `undriven`: they only follow their own set points.
    Of the outputs in `powered` growd counts the energy, of those in `metered` the volume. The photos of
    `cameras` come from their own part, on `<env>/photo/<camera>`.
    """

    environment: str
    known: tuple[str, ...]
    set_points: Mapping[str, tuple[float, float]]
    outputs: Mapping[str, str]
    levels: tuple[str, ...]
    undriven: frozenset[str]
    powered: frozenset[str] = frozenset()
    metered: frozenset[str] = frozenset()
    cameras: tuple[str, ...] = ()

    @classmethod
    def of(cls, chamber: Chamber) -> HomePlace:
        """The environment of a configuration."""
        lamp = {f"light_{name}": f"light_intensity_{name}" for name in chamber.lamp_channels}
        outputs = {each.name: each.own_variable for each in chamber.outputs}
        levels = [ILLUMINANCE] if lamp else []
        power = {each.name: each.power_w for each in chamber.outputs}
        power |= {f"light_{each.name}": each.power_w for each in chamber.light.channel}
        power |= {f"light_{each.channel}": each.power_w for each in chamber.channels_by_path.values()}
        return cls(
            chamber.environment,
            tuple(name for name in VARIABLES if name in chamber.known),
            chamber.reach(),
            lamp | outputs,
            tuple(dict.fromkeys([*levels, *outputs.values()])),
            frozenset(
                each.own_variable for each in chamber.outputs if not {*each.moved} - {each.own_variable}
            ),
            frozenset(name for name, power_w in power.items() if power_w is not None),
            frozenset(each.name for each in chamber.outputs if each.flow_ml_min is not None),
            tuple(each.name for each in chamber.options.camera),
        )


@dataclass(frozen=True)
class TopicNames:
    """The topics of one growd, below `<prefix>/<device>`."""

    prefix: str
    device: str

    def __call__(self, *names: str) -> str:
        """A topic: `topics("environment_1", "measured", "air_temperature")`."""
        return "/".join((self.prefix, self.device, *names))

    @property
    def availability(self) -> str:
        """Has "online", or "offline" when growd has ended or the broker has lost it."""
        return self("availability")

    def is_command(self, topic: str) -> bool:
        """Whether a topic is one of those of `commands`."""
        names = topic.removeprefix(self("")).split("/")
        return names[-1] == "set" or names[1:] in [["recipe", action] for action in ACTIONS]

    def commands(self) -> list[str]:
        """The topics that commands come on, with wildcards."""
        return [
            self("hold", "set"),
            self("+", "desired", "+", "set"),
            self("+", "commanded", "+", "set"),
            self("+", "recipe", "selected", "set"),
            *(self("+", "recipe", action) for action in ACTIONS),
        ]
