"""Names on the bus: paths of segments with slashes between, such as `environment_1/measured/air_humidity`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from growd.bus.errors import InvalidNameError

MAX_NAME: Final = 255

_LETTER: Final = (
    r"[^/\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ufeff\ufff9-\uffff]"
)
"""Not a slash, a control or format character, or a white space but U+0020."""

PATTERN: Final = rf"^/?{_LETTER}+(/{_LETTER}+)*$"
"""A name, as a regular expression of ECMA-262 (for JSON Schema) and of Python alike."""

_segment: Final = re.compile(rf"((?![\ud800-\udfff]){_LETTER})+").fullmatch  # no half of a surrogate pair


@lru_cache(1_024)  # requests name the same few again and again
def normalise(name: str) -> str:
    """The name without its one optional leading slash; `InvalidNameError` if it can't be a name.

    A segment is any text that can be printed, and not empty. (ROS allows letters, digits and `_` only; recipe
    ids and variables of other makers do not keep to that.)
    """
    bare = name.removeprefix("/")
    if not bare:
        raise InvalidNameError(name, "it is empty")
    if len(bare) > MAX_NAME:
        raise InvalidNameError(name, f"it is longer than {MAX_NAME} characters")
    if bare.startswith("/") or bare.endswith("/") or "//" in bare:
        raise InvalidNameError(name, "it has an empty segment")
    if not _segment(bare.replace("/", "")):
        raise InvalidNameError(name, "it holds a character that can't be printed")
    return bare


def is_segment(text: str) -> bool:
    """Whether `text` can stand between two slashes of a name."""
    return len(text) <= MAX_NAME and _segment(text) is not None
