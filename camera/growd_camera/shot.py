"""What is asked of the process that takes a photo, and its answer.

The daemon loads neither its program nor Pillow.
"""

from __future__ import annotations

from typing import Final

import msgspec

LIMIT_S: Final = 30
"""How long a photo may take, in real seconds."""


class Leaves(msgspec.Struct, frozen=True):
    """Share of leaves in percent, and their mean green chromatic coordinate; None if it can't be seen."""

    cover_percent: float | None
    greenness: float | None


class Prepared(msgspec.Struct, frozen=True):
    """A picture as it was written."""

    width: int
    height: int
    size: int
    small_size: int
    sha256: str
    leaves: Leaves


class ShotOrder(msgspec.Struct, frozen=True):
    """What to do: `programs` are tried in turn, or `url` is read, or neither if `source` is there already."""

    source: str
    target: str
    small: str
    width: int
    rotation: int
    programs: list[list[str]] = []
    url: str = ""


class Shot(msgspec.Struct, frozen=True):
    """What became of it: a picture, or why there is none."""

    picture: Prepared | None = None
    reason: str = ""
