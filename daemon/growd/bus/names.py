"""Names on the bus: paths of segments with slashes between, such as `environment_1/measured/air_humidity`."""

from __future__ import annotations

from typing import Final

from growd.bus.errors import InvalidNameError

MAX_NAME: Final = 255


def normalise(name: str) -> str:
    """The name without its one optional leading slash; `InvalidNameError` if it can't be a name.

    A segment is any text that can be printed, but empty. (ROS allows letters, digits and `_` only; recipe
    ids and variables of other makers do not keep to that.)
    """
    bare = name.removeprefix("/")
    if not bare:
        raise InvalidNameError(name, "it is empty")
    if len(bare) > MAX_NAME:
        raise InvalidNameError(name, f"it is longer than {MAX_NAME} characters")
    if not bare.isprintable():
        raise InvalidNameError(name, "it holds a character that can't be printed")
    if bare.startswith("/") or bare.endswith("/") or "//" in bare:
        raise InvalidNameError(name, "it has an empty segment")
    return bare


def is_segment(text: str) -> bool:
    """Whether `text` can stand between two slashes of a name."""
    return bool(text) and "/" not in text and text.isprintable() and len(text) <= MAX_NAME
