"""What changed between two JSON values, as a client applies it."""

from __future__ import annotations

from typing import Any, TypeAlias

Changes: TypeAlias = "list[Any] | dict[str, Changes]"
"""An array of one element is the new value. An object has the changed members, or elements by index."""


def changes(old: Any, new: Any) -> Changes:
    """The changes from one value to another; an empty object if they are equal."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return {name: changes(old[name], value) for name, value in new.items() if old[name] != value}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return {str(index): changes(*pair) for index, pair in pairs if pair[0] != pair[1]}
    return {} if old == new else [new]
