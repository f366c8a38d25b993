"""What the watch on set points knows of each controlled variable."""

from __future__ import annotations

from math import inf, isinf
from typing import TYPE_CHECKING, Final

import msgspec

from growd.loops import loop_kind
from growd.output_roles import ROLES
from growd.variables import CARBON_DIOXIDE, FAN, ILLUMINANCE, VALVE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

AT_LIMIT: Final = 0.99
RESTING_PPM: Final = 1_000.0
"""CO2 above this without a set point is a problem. Rooms with people have less if they are aired
(Pettenkofer)."""
_NO_BOTTLE: Final = (
    "the valve is open all the time: check the bottle, the valve, and whether the door is open"
)
_STAYS_RICH: Final = (
    "the valve is closed and the fan runs, so the valve may be stuck open, or the air of the room has as much"
)
_NAMES: Final = {VALVE: "the valve", FAN: "the fan"}


class Loop(msgspec.Struct, frozen=True):
    """A measured variable that growd controls.

    The band is `relative` of the set point, at least `least` in the variable's unit. On a side from which no
    output `lowers` or `raises` it, the band is at least `far`. Set points up to `idle_up_to` need no output.
    """

    variable: str
    outputs: tuple[str, ...]
    """The variables of its outputs, which may have their own set points or overrides."""
    devices: tuple[str, ...]
    """The names of its output devices."""
    relative: float
    least: float
    lowers: bool
    idle_up_to: float = 0.0
    at_most: str = ""
    """The reason when the command is at its upper limit."""
    at_least: str = ""
    """The reason when the command is at its lower limit."""
    limits: tuple[float, float] = (-AT_LIMIT, AT_LIMIT)
    """The commands that count as the lower and the upper limit."""
    raises: bool = True
    """Whether an output raises it; else too little does not count."""
    lowering: frozenset[str] = frozenset()
    """Those of `outputs` that lower it."""
    far: float = inf
    is_dosed: bool = False
    rivals: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Other variables that an output of `lowering` lowers too."""
    full: Mapping[str, float] = msgspec.field(default_factory=dict)
    """The set point of full level of an output, if it is not 1."""
    through: str = ""
    """The variable that is controlled in its place: its set point follows from that of this one."""

    def band(self, set_point: float) -> float:
        """The allowed distance from the set point, on a side from which an output moves it."""
        return max(self.least, self.relative * set_point)

    @property
    def resting_at_most(self) -> float:
        """From this value on it is too high though nothing raises it on purpose."""
        return RESTING_PPM if self.variable == CARBON_DIOXIDE and self.raises else inf

    def is_moved(self, *, is_low: bool) -> bool:
        """Whether an output moves it back if it is too low, or too high."""
        return self.raises if is_low else self.lowers

    def allowed(self, set_point: float, *, is_low: bool) -> float:
        """The allowed distance below the set point, or above it."""
        band = self.band(set_point)
        return band if self.is_moved(is_low=is_low) else max(band, self.far)

    def limits_about(self, set_point: float) -> tuple[float, float | None]:
        """The least and the greatest value that counts as at the set point, None for no limit."""
        below, above = (self.allowed(set_point, is_low=is_low) for is_low in (True, False))
        least = max(set_point - below, VARIABLES[self.variable].minimum)
        return least, None if isinf(above) else set_point + above

    def pushing(self, *, is_low: bool) -> tuple[str, ...]:
        """The outputs that move it further away if it is too low, or too high."""
        return tuple(each for each in self.outputs if (each in self.lowering) is is_low)


def name_of_output(output: str) -> str:
    """An output for people, by its own variable."""
    return _NAMES.get(output) or (f"the {ROLES[output].name}" if output in ROLES else output)


def names_of(outputs: Iterable[str]) -> str:
    """Outputs for people, by their own variables."""
    return " and ".join(dict.fromkeys(name_of_output(each) for each in outputs))


def light_loop(full_scale_lux: float, channels: Iterable[str], *, is_switched: bool) -> Loop:
    """Illuminance: within 10 % of the set point, or 0.5 % of full scale. A switched lamp has to be lit."""
    return Loop(
        ILLUMINANCE,
        tuple(f"light_intensity_{channel}" for channel in channels),
        ("light",),
        relative=0.1,
        least=0.005 * full_scale_lux,
        lowers=not is_switched,
        at_most="a switched lamp is on only from half of full_scale_lux on"
        if is_switched
        else "the lamp is at full light",
        at_least="the lamp is dark; this is other light, such as daylight",
        limits=(0.0, 0.0 if is_switched else AT_LIMIT),
    )


def planned_loop(variable: str, driven: Loop, *, is_opposite: bool = False) -> Loop:
    """A variable whose set point a planner turns into that of another, which moves the other way if so."""
    least, sides = VARIABLES[variable].usual_band, (driven.raises, driven.lowers)
    raises, lowers = reversed(sides) if is_opposite else sides
    outputs = (driven.variable, *driven.outputs)
    return Loop(variable, outputs, (), 0.1, least, lowers, raises=raises, through=driven.variable)


def output_loop(
    variable: str,
    *,
    raising: Iterable[str],
    lowering: Iterable[str] = (),
    devices: Iterable[str] = (),
    full: Mapping[str, float] | None = None,
    rivals: Mapping[str, tuple[str, ...]] | None = None,
) -> Loop:
    """A variable that outputs move, by their own variables; its band is about the accuracy of sensors."""
    kind, raising, lowering = loop_kind(variable), tuple(raising), tuple(lowering)
    return Loop(
        variable,
        tuple(dict.fromkeys((*raising, *lowering))),
        tuple(devices),
        relative=kind.tolerance[0],
        least=kind.tolerance[1],
        lowers=bool(lowering),
        raises=bool(raising),
        lowering=frozenset(lowering),
        far=kind.far,
        is_dosed=kind.method == "dose",
        rivals=rivals or {},
        full=full or {},
        idle_up_to=kind.least,
        at_most=_at_limit(raising) if variable != CARBON_DIOXIDE else _NO_BOTTLE,
        at_least=_at_limit(lowering) if variable != CARBON_DIOXIDE else _STAYS_RICH,
    )


def _at_limit(outputs: tuple[str, ...]) -> str:
    """The reason when these outputs are at full level."""
    verb = "runs" if outputs == (FAN,) else "is on" if len(set(outputs)) == 1 else "are on"
    return f"{names_of(outputs)} {verb} all the time"
