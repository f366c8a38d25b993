"""What can go wrong on the bus. Each error carries its data, so that an edge can word and number it."""

from __future__ import annotations

import json
from typing import Any, Final

SHOWN: Final = 80  # characters of a value in a sentence


class BusError(Exception):
    """Base of all errors of the bus."""


class InvalidNameError(BusError, ValueError):
    """A name that no topic, parameter, service or node can have."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the name {shown(name)} is not valid: {reason}")
        self.name = name
        self.reason = reason


class UnknownNameError(BusError, LookupError):
    """Nothing of this kind (topic, parameter, service, node) has this name."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"there is no {kind} named {shown(name)}")
        self.kind = kind
        self.name = name


class NameTakenError(BusError, ValueError):
    """Something of this kind has this name already."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"a {kind} named {shown(name)} exists already")
        self.kind = kind
        self.name = name


class InvalidValueError(BusError, ValueError):
    """A value that does not fit: `field` names the place, `expected` says what would be right."""

    def __init__(self, field: str, expected: str, value: Any) -> None:
        super().__init__(f"{field}: expected {expected}, got {shown(value)}")
        self.field = field
        self.expected = expected
        self.value = value


class InvalidArgumentsError(BusError, ValueError):
    """Arguments of the wrong number, of unknown names, or in no form that can be read as arguments."""


class ReadOnlyError(BusError, PermissionError):
    """A parameter that only its own node sets."""

    def __init__(self, name: str, node: str) -> None:
        super().__init__(f"the parameter {shown(name)} is set by the node {node} alone")
        self.name = name
        self.node = node


class ConflictError(BusError, ValueError):
    """A parameter can't be set because of what stands above or beneath it in the tree."""


class CapacityError(BusError, OverflowError):
    """The bus holds as much as it may."""


class NotKeptError(BusError, OSError):
    """What had to be kept across restarts could not be kept, so it was not done."""


def shown(value: Any) -> str:
    """`value` as JSON would show it, cut to a length fit for a sentence."""
    if isinstance(value, dict):
        return f"an object with {len(value)} member" + ("" if len(value) == 1 else "s")
    if isinstance(value, (list, tuple)):
        return f"an array of {len(value)} element" + ("" if len(value) == 1 else "s")
    if isinstance(value, str):
        value = value[:SHOWN]  # before the work, not after it
        return json.dumps(value, ensure_ascii=not value.isprintable())
    text = json.dumps(value, default=repr)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
