"""Errors of the bus. Each carries its data, for HTTP status and text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from growd.runtime.text import most_like

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN: Final = 80  # characters of a value in a sentence
MAX_BITS: Final = 1024  # of an integer in a sentence; Python refuses to write out very large ones


class BusError(Exception):
    """Base of all errors of the bus."""


class InvalidNameError(BusError, ValueError):
    """An invalid name of a topic, parameter, service or node."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the name {shown(name)} is not valid: {reason}")
        self.name = name
        self.reason = reason


class UnknownNameError(BusError, LookupError):
    """No topic, parameter, service or node (`kind`) has this name."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"there is no {kind} named {shown(name)}")
        self.kind = kind
        self.name = name


class NameTakenError(BusError, ValueError):
    """A topic, parameter, service or node (`kind`) has this name already."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"a {kind} named {shown(name)} exists already")
        self.kind = kind
        self.name = name


class InvalidValueError(BusError, ValueError):
    """An invalid value: `field` is its name, `expected` describes valid values."""

    def __init__(self, field: str, expected: str, value: Any) -> None:
        super().__init__(f"{field} must be {expected}, not {shown(value)}")
        self.field = field
        self.expected = expected
        self.value = value


class InvalidArgumentsError(BusError, ValueError):
    """Arguments of the wrong number, with unknown names, or in another form."""


class ReadOnlyError(BusError, PermissionError):
    """A parameter that only its node sets."""

    def __init__(self, name: str, node: str) -> None:
        super().__init__(f"the parameter {shown(name)} is read-only: the node {node} sets it")
        self.name = name
        self.node = node


class NotOpenError(BusError, PermissionError):
    """A topic that clients may not publish on; `owners` are the nodes that publish on it."""

    def __init__(self, name: str, owners: Sequence[str], note: str = "") -> None:
        if owners:
            reason = f"it belongs to the node{'s' if len(owners) > 1 else ''} {', '.join(owners)}"
        else:
            reason = note or "it belongs to growd"
        super().__init__(f"clients can't publish on the topic {shown(name)}: {reason}")
        self.name = name
        self.owners = tuple(owners)


class ConflictError(BusError, ValueError):
    """A parameter conflicts with one above or beneath it in the tree."""

    def __init__(self, name: str, problem: str, done: str = "set") -> None:
        super().__init__(f"the parameter {shown(name)} can't be {done}: {problem}")
        self.name = name


class UndeclaredError(BusError, LookupError):
    """A new parameter in the branch of a `node`, which has `declared` others there: probably misspelt."""

    def __init__(self, name: str, node: str, declared: Sequence[str]) -> None:
        bare, names = name.removeprefix(f"{node}/"), [each.removeprefix(f"{node}/") for each in declared]
        like = [each for each in names if each.endswith(f"/{bare}")] or most_like(bare, names, 0.5)
        hint = f"did you mean {node}/{like[0]}?" if like else f"it has {', '.join(names)}"
        super().__init__(f"the node {node} has no parameter {shown(bare)} (new=true would add it); {hint}")
        self.name = name
        self.node = node


class CapacityError(BusError, OverflowError):
    """The bus has no room for more `what`: `limit` is the most."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"no room for more {what}: {limit} is the maximum")
        self.what = what
        self.limit = limit


class BusyError(BusError, RuntimeError):
    """The limit of `what` under way is reached: try again."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{limit} {what} are under way, the limit; try again")
        self.what = what
        self.limit = limit


class InvalidAnswerError(BusError, RuntimeError):
    """A handler's answer does not match its service: an error of the service, not of its caller."""

    def __init__(self, service: str, problem: str) -> None:
        super().__init__(f"the service {service} gave an invalid answer: {problem}")
        self.service = service
        self.problem = problem


class ClosedError(BusError, RuntimeError):
    """A subscription that is closed and empty."""

    def __init__(self, node: str) -> None:
        super().__init__(f"a subscription of the node {node} is closed")
        self.node = node


class NotKeptError(BusError, OSError):
    """Something could not be saved, or read from the disk; the message says what was done even so."""


class UnavailableError(BusError, RuntimeError):
    """The database does not answer now."""


def shown(value: Any) -> str:
    """`value` as JSON, cut to a length for a sentence."""
    if isinstance(value, dict):
        return f"an object with {counted(len(value), 'member')}"
    if isinstance(value, (list, tuple)):
        return f"an array of {counted(len(value), 'element')}"
    if isinstance(value, str):
        text = value[:SHOWN]  # cut first: it may be long
        return json.dumps(text, ensure_ascii=not text.isprintable()) + ("…" if len(value) > SHOWN else "")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = json.dumps(value, default=repr)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 argument, 2 arguments."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
