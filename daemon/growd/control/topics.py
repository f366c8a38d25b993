"""The topics of an environment: their names, types and ranges."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import FLOAT64, STRING, VECTOR3, MessageType
from growd.runtime.sentence import code_of
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from growd.bus import Bus

LIGHT_CHANNELS: Final = {"white": "x", "red": "y", "blue": "z"}
"""The channels of a light, and the field of each in a message on `light_channels`."""

CHANNEL_LEVELS: Final = MessageType(
    VECTOR3.name, tuple(field.within(0, 1, "fraction") for field in VECTOR3.fields)
)

SWITCH_STATE: Final = FLOAT64.within(0, 1, "switch")

OUTPUT_LEVEL: Final = FLOAT64.within(0, 1, "fraction")

SENTENCE: Final = (Field("message", Kind.STRING), Field("code", Kind.STRING), Field("fields", Kind.JSON))
"""Fields of a message with a sentence, for `said`."""

EVENT: Final = MessageType(
    "growd/Event", (Field("kind", Kind.STRING), Field("source", Kind.STRING), *SENTENCE)
)
"""A fault, a recovery, an interlock or a note, with its source, and the code and fields of its message."""

NOTE: Final = MessageType(STRING.name, (Field("data", Kind.STRING, min_length=1, max_length=2_000),))
"""An entry of a grower's journal."""

RESERVED: Final = frozenset({
    "autotune", "calibration", "diagnostics", "events", "feedback", "interlocks", "light_channels", "notes",
    "outputs", "posted", "raw", "recipe_state", "self_test", "switches",
})  # fmt: skip
"""Segments after an environment's id whose topics only growd's own nodes publish."""


def event(kind: str, source: str, message: str) -> dict[str, Any]:
    """A message of the type `EVENT`; a `Sentence` gives its code and fields."""
    return {"kind": kind, "source": source, **said(message)}


def said(message: str) -> dict[str, Any]:
    """The fields `SENTENCE`; a `Sentence` gives its code and fields."""
    return {"message": str(message), **code_of(message)}


def raw(environment: str, variable: str, device: str = "") -> str:
    """The topic of unfiltered readings; with `device`, of one of several sensors of the variable."""
    return f"{environment}/raw/{variable}" + (f"/{device}" if device else "")


def feedback(environment: str, output: str) -> str:
    """The topic of what a sensor reads of the state of an output."""
    return f"{environment}/feedback/{output}"


def posted(environment: str, device: str) -> str:
    """The topic on which clients post the values of a sensor of the kind topic."""
    return f"{environment}/posted/{device}"


def measured(environment: str, variable: str) -> str:
    """The topic of filtered readings."""
    return f"{environment}/measured/{variable}"


def desired(environment: str, variable: str) -> str:
    """The topic of a set point, from a recipe or a client."""
    return f"{environment}/desired/{variable}"


def commanded(environment: str, variable: str) -> str:
    """The topic of commands to an actuator, from a controller or a client."""
    return f"{environment}/commanded/{variable}"


def diagnostics(environment: str, device: str) -> str:
    """The topic of a device's state."""
    return f"{environment}/diagnostics/{device}"


def counters(environment: str, device: str) -> str:
    """The topic of a device's counters."""
    return f"{environment}/diagnostics/{device}/counters"


def events(environment: str) -> str:
    """The topic of events. They are stored with the data."""
    return f"{environment}/events"


def notes(environment: str) -> str:
    """The topic of journal entries. They are stored as events of the kind `note`."""
    return f"{environment}/notes"


def light_channels(environment: str) -> str:
    """The topic of the levels written to the lamp: white, red, blue as x, y, z, each 0..1."""
    return f"{environment}/light_channels"


def switch_state(environment: str, device: str) -> str:
    """The topic of the state written to a switched output: 1 or 0."""
    return f"{environment}/switches/{device}"


def output_level(environment: str, device: str) -> str:
    """The topic of the level written to an output, 0 to 1."""
    return f"{environment}/outputs/{device}"


def declare_environment(
    bus: Bus,
    environment: str,
    sensed: Iterable[str],
    derived: Iterable[str] = (),
    limits: Mapping[str, tuple[float, float, str]] = MappingProxyType({}),
) -> None:
    """Declare every topic that clients may use, before any node starts. Calling it again changes nothing.

    `desired` has the variable's range, or a narrower one of `limits`, with the reason. `commanded` is 0..1
    for light and outputs and -1..1 otherwise (cool to heat). `raw` has no range: the sampler checks it.

    Clients may publish on `desired`, on `notes`, on `measured` of variables without a sensor (a pH strip),
    and on `commanded` once a controller or actuator has opened it. The `derived` ones are calculated, or seen
    by a camera.
    """
    declare = bus.topics.declare
    sensed, derived = frozenset(sensed), frozenset(derived)
    for variable in VARIABLES.values():
        name = variable.name
        ranged = FLOAT64.within(variable.minimum, variable.maximum, variable.unit)
        wanted = (
            FLOAT64.within(*limits[name][:2], variable.unit, limits[name][2]) if name in limits else ranged
        )
        idle = f"nothing in {environment} controls {name}, so its set point is recorded and has no effect"
        declare(desired(environment, name), wanted, is_open=True, note=idle, is_releasable=True)
        lowest = 0 if name.startswith("light_") or variable.is_output else -1
        missing = f"{environment} has no output for {name}"
        share = FLOAT64.within(lowest, 1, "fraction")
        declare(commanded(environment, name), share, note=missing, is_releasable=True)
        if name in sensed:
            declare(raw(environment, name), FLOAT64)
        if name in sensed or name in derived:
            declare(measured(environment, name), ranged)
        elif not variable.is_output:
            declare(measured(environment, name), ranged, is_open=True)
    for name in ("recipe_start", "recipe_end"):
        declare(desired(environment, name), STRING)
    declare(events(environment), EVENT)
    declare(notes(environment), NOTE, is_open=True)
    no_lamp = f"{environment} has no lamp"
    declare(light_channels(environment), CHANNEL_LEVELS, note=no_lamp)
    declare(commanded(environment, "light_channels"), CHANNEL_LEVELS, note=no_lamp, is_releasable=True)
