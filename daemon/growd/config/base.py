"""Base types of the configuration sections."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, Meta(pattern=NAME)]
NameOrNone = Annotated[str, Meta(pattern=f"{NAME}|^$")]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Pin = Annotated[int, Meta(ge=0, le=27)]
"""BCM number of a header pin."""
Fraction = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Patience = Annotated[float, Meta(ge=2, le=86_400)]
"""In seconds; controllers publish each second."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One section of the file; an option that is not declared is an error.

    `growd config sample` prints the docstring of a section and the text below each option. The end of an
    option's name is its unit.
    """
