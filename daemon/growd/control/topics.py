"""The topics of an environment: their names, types and ranges, declared in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64, STRING, VECTOR3, MessageType
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.bus import Bus

LIGHT_CHANNELS: Final = {"white": "x", "red": "y", "blue": "z"}
"""The channels of a light, and the field that stands for each in a message on `light_channels`."""

CHANNEL_LEVELS: Final = MessageType(
    VECTOR3.name, tuple(field.within(0, 1, "fraction") for field in VECTOR3.fields)
)

SWITCH_STATE: Final = FLOAT64.within(0, 1, "switch")

EVENT: Final = MessageType(
    "growd/Event",
    (Field("kind", Kind.STRING), Field("source", Kind.STRING), Field("message", Kind.STRING)),
)
"""Something that happened once: a fault, a recovery or an interlock, of which device, and in words."""


def raw(environment: str, variable: str, device: str = "") -> str:
    """The topic of a variable as its sensor gives it; with `device`, of one among several sensors of it."""
    return f"{environment}/raw/{variable}" + (f"/{device}" if device else "")


def measured(environment: str, variable: str) -> str:
    """The topic of a variable as it is, after the filter."""
    return f"{environment}/measured/{variable}"


def desired(environment: str, variable: str) -> str:
    """The topic of a variable as a recipe or a client wants it: its set point."""
    return f"{environment}/desired/{variable}"


def commanded(environment: str, variable: str) -> str:
    """The topic of what a controller (or a client by hand) tells an actuator."""
    return f"{environment}/commanded/{variable}"


def diagnostics(environment: str, device: str) -> str:
    """The topic of a device's state."""
    return f"{environment}/diagnostics/{device}"


def counters(environment: str, device: str) -> str:
    """The topic of a device's counters."""
    return f"{environment}/diagnostics/{device}/counters"


def events(environment: str) -> str:
    """The topic of what happens once: each is kept with the data."""
    return f"{environment}/events"


def light_channels(environment: str) -> str:
    """The topic of what the light's outputs really are: white, red, blue as x, y, z, each 0..1."""
    return f"{environment}/light_channels"


def switch_state(environment: str, device: str) -> str:
    """The topic of whether a switched output is really on: 1 or 0."""
    return f"{environment}/switches/{device}"


def declare_environment(bus: Bus, environment: str, sensed: Iterable[str]) -> None:
    """Declare every topic that clients may know before any node starts.

    `desired` has the variable's range, `commanded` is 0..1 for light and switches and -1..1 otherwise (cool
    to heat). `raw` has no range: the sampler says what is out of range. Commanding `light_channels` with
    [white, red, blue] sets the three at one moment. Repeating it changes nothing.
    """
    declare = bus.topics.declare
    for variable in VARIABLES.values():
        limits = (variable.minimum, variable.maximum, variable.unit)
        declare(desired(environment, variable.name), FLOAT64.within(*limits))
        lowest = 0 if variable.name.startswith("light_") or variable.unit == "switch" else -1
        declare(commanded(environment, variable.name), FLOAT64.within(lowest, 1, "fraction"))
    for name in sensed:
        variable = VARIABLES[name]
        declare(raw(environment, name), FLOAT64)
        declare(
            measured(environment, name), FLOAT64.within(variable.minimum, variable.maximum, variable.unit)
        )
    for name in ("recipe_start", "recipe_end"):
        declare(desired(environment, name), STRING)
    declare(events(environment), EVENT)
    declare(light_channels(environment), CHANNEL_LEVELS)
    declare(commanded(environment, "light_channels"), CHANNEL_LEVELS)
