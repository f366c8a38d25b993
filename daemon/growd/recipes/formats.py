"""Recipe formats, as far as a chamber needs them while no recipe runs, and the errors of recipes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from growd.bus.errors import NotKeptError, UnavailableError

if TYPE_CHECKING:
    from growd.recipes.findings import RecipeFinding

FORMATS: Final = ("flexformat", "phased", "simple")
"""Their names, which are those of their modules."""

Reach = Mapping[str, tuple[float, float] | tuple[float, float, str] | tuple[float, float, str, float]]
"""The lowest and highest set point that the actuators of an environment can reach, by variable. With a note,
which says why, others are refused. The last number is of a lamp that can't be dimmed: it is on from there.
"""


class InvalidRecipeError(ValueError):
    """A recipe with errors; `findings` has all of them."""

    def __init__(self, findings: list[RecipeFinding]) -> None:
        super().__init__("; ".join(str(finding) for finding in findings))
        self.findings = findings


class RecipeRefusedError(RuntimeError):
    """A request that can't be done now; the message says why."""


class NotRecordedError(RecipeRefusedError, NotKeptError):
    """It could not be saved, or what is saved could not be read yet."""


class NoDatabaseError(RecipeRefusedError, UnavailableError):
    """A recipe can't be read."""


def beyond(reach: Reach, variable: str, value: float) -> str:
    """The words on a set point that the actuators can't reach; "" if they can, or nothing drives it."""
    found = reach.get(variable, (value, value))
    low, high = found[:2]
    note = found[2] if len(found) > 2 else ""  # noqa: PLR2004  see `Reach`
    on_from = found[3] if len(found) > 3 else 0.0  # noqa: PLR2004
    if 0 < value < on_from:
        remedy = f"it can't be dimmed, and is on from {on_from:g}"
        return f"{variable} of {value:g} may leave the lamp dark: {remedy}"
    if low <= value <= high:
        return ""
    why = f": these are {note}" if note else ""
    return f"{variable} can be driven from {low:g} to {high:g} here, not to {value:g}{why}"
