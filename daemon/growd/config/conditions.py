"""The section of one condition: outputs that are held while a variable is beyond a limit."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from growd.config.base import Name, Section


class Condition(Section, frozen=True):
    """An interlock of your own: it holds outputs while a variable is above or below a limit, on or off.

    It has exactly one of `above`, `below` and `on`.
    """

    name: Name
    """Name of the interlock."""

    outputs: tuple[Name, ...]
    """Names of the outputs that it holds; "light" is the lamp."""

    variable: str
    """A measured variable, such as "door_open", or the own variable of an output, such as "air_flush_on"."""

    hold: Literal["safe", "off", "on"] = "off"
    """The state in which it holds them."""

    above: float | None = None
    """They are held from this value on, in the unit of the variable."""

    below: float | None = None
    """They are held up to this value."""

    on: bool | None = None
    """They are held while the variable is on (true) or off (false). An output is on at any level above 0."""

    hysteresis: Annotated[float, Meta(ge=0)] | None = None
    """The hold ends this far beyond the limit. Default: what a steady value may wander, such as 0.5 degC, 2.5
    % or 10 ppm."""

    after_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """How long the value must be beyond the limit first."""

    unknown: Literal["hold", "ignore"] = "hold"
    """What applies while the variable is not known."""

    alert: bool = False
    """Alert and warn as for other interlocks."""
