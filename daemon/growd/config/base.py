"""Base types of the configuration sections."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$"
TIME_OF_DAY: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
DEVICE_FILE: Final = r"^/dev/(?!.*\.\.)[A-Za-z0-9_./:+-]+$"
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
