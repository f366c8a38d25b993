"""Reads a recipe document from the text of a file."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from growd.recipes.findings import error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.recipes.findings import RecipeFinding

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


def read(text: str) -> tuple[Any, list[RecipeFinding]]:
    """The document, and an error for each repeated key: JSON readers keep only the last value.

    Raises ValueError for text that is not JSON, RecursionError for too many levels.
    """
    document = json.loads(text)
    return document, [
        error("", f"line {line}: the key {json.dumps(key)} is repeated in one object")
        for line, key in _repeated(text)
    ]


def _repeated(text: str) -> Iterator[tuple[int, str]]:
    """The line and key of each repetition; `text` is valid JSON."""
    open_objects: list[set[str]] = []
    last = ""
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                open_objects.append(set())
            case "}" | "]":
                open_objects.pop()
            case ":":
                key = json.loads(last)
                if key in open_objects[-1]:
                    yield text.count("\n", 0, token.start()) + 1, key
                open_objects[-1].add(key)
            case _:
                last = token[0]
