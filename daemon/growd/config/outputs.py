"""The section of one output: how it is driven, what it moves, and what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta

from growd.config.base import Name, Patience, Pin, Seconds, Section
from growd.device_kinds import LAMP_CHANNELS, OUTPUT_KINDS, ROLES, Role

if TYPE_CHECKING:
    OutputKindName: TypeAlias = str
    OutputVariable: TypeAlias = str
else:
    OutputKindName = Literal[OUTPUT_KINDS]
    OutputVariable = Literal[(*ROLES, *(f"light_intensity_{channel}" for channel in LAMP_CHANNELS))]

DIMMED: tuple[str, ...] = ("pwm", "hardware_pwm", "topic")
"""The kinds that take any level between off and on."""


class Output(Section, frozen=True):
    """One output, such as a heater, a pump or a valve.

    It follows the commands for its own variable. It is in its safe state without a command for stale_after_s,
    while growd is not running, and while the variable in `needs` is not known. Commands cannot change that.
    """

    name: Name
    """Name in topics and services."""

    kind: OutputKindName = "relay"
    """How it is driven."""

    drives: tuple[str, ...] = ()
    """The variables that it moves, such as ["air_temperature"]. Controllers of these variables use it."""

    direction: Literal["raises", "lowers"] = "raises"
    """Whether it raises or lowers them."""

    variable: OutputVariable | None = None
    """The variable of its own commands, such as air_heater. Default: the usual one for what it drives."""

    pin: Pin | None = None
    """Pin (BCM number), for the kinds with a pin."""

    active: Literal["high", "low"] = "high"
    """Pin level that switches it on."""

    safe: Literal["off", "on"] = "off"
    """Safe state."""

    needs: str | None = None
    """The output is in its safe state while this variable is not known; "" is none. Default: the variable
    that it drives, for heaters, valves, pumps and what else does harm without a sensor."""

    power_w: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """Electric power at full level."""

    flow_ml_min: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    """Flow at full level."""

    stale_after_s: Patience = 10.0
    """Without a newer command the output goes to its safe state after this time."""

    override_s: Seconds = 600.0
    """How long an override holds."""

    @property
    def own_variable(self) -> str:
        """The variable of its commands."""
        return self.variable or usual_variable(self.drives, self.direction)

    @property
    def role(self) -> Role | None:
        """What it does; None for a channel of the lamp."""
        return ROLES.get(self.own_variable)

    @property
    def can_dim(self) -> bool:
        """Whether it takes levels between off and on."""
        return self.kind in DIMMED


def usual_variable(drives: tuple[str, ...], direction: str) -> str:
    """The own variable of an output that moves these variables, "" if there is none."""
    raises = direction == "raises"
    first = drives[0] if drives else ""
    if first in ROLES or first.startswith("light_intensity_"):
        return first
    roles = (name for name, role in ROLES.items() if first and (role.drives, role.raises) == (first, raises))
    return next(roles, "")
