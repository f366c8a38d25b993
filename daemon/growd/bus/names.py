"""Names on the bus: segments separated by slashes, such as `environment_1/measured/air_humidity`."""

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
"""No slash, no control or format character, and no white space except U+0020."""

PATTERN: Final = rf"^/?{_LETTER}+(/{_LETTER}+)*$"
"""A name, as a regular expression for ECMA-262 (JSON Schema) and Python."""

_segment: Final = re.compile(rf"((?![\ud800-\udfff]){_LETTER})+").fullmatch  # no half of a surrogate pair


@lru_cache(1_024)  # requests repeat a few names
def normalise(name: str) -> str:
    """The name without its optional leading slash; `InvalidNameError` if it is invalid.

    A segment is any printable text that is not empty. ROS allows only letters, digits and `_`, but recipe ids
    and variables of other makers have more.
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
    """Whether `text` can be a segment of a name."""
    return len(text) <= MAX_NAME and _segment(text) is not None
