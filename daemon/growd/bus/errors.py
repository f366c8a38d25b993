"""What can go wrong on the bus. Each error carries its data, so that an edge can word and number it."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN: Final = 80  # characters of a value in a sentence
MAX_BITS: Final = 1024  # of an integer in a sentence; Python refuses to write out very large ones


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


class NotOpenError(BusError, PermissionError):
    """A topic that clients may not publish on: `owners` are the nodes that do, none where nothing uses it."""

    def __init__(self, name: str, owners: Sequence[str], note: str = "") -> None:
        if owners:
            reason = f"it belongs to the node{'s' if len(owners) > 1 else ''} {', '.join(owners)}"
        else:
            reason = note or "it belongs to growd"
        super().__init__(f"clients can't publish on the topic {shown(name)}: {reason}")
        self.name = name
        self.owners = tuple(owners)


class ConflictError(BusError, ValueError):
    """A parameter can't be set, declared or deleted for what stands above or beneath it in the tree."""

    def __init__(self, name: str, problem: str, done: str = "set") -> None:
        super().__init__(f"the parameter {shown(name)} can't be {done}: {problem}")
        self.name = name


class UndeclaredError(BusError, LookupError):
    """A new parameter that no node has declared, and whose name is probably a mistake.

    `node` is the one in whose branch it would be, "" for none. `declared` are the names it may have meant.
    """

    def __init__(self, name: str, node: str, declared: Sequence[str]) -> None:
        prefix = f"{node}/" if node else ""
        bare, names = name.removeprefix(prefix), [each.removeprefix(prefix) for each in declared]
        ending = [each for each in names if each.endswith(f"/{bare}")]
        like = ending or get_close_matches(bare, names, 1, cutoff=0.5 if node else 0.8)
        owner = f"the node {node} has no parameter" if node else "no node has a parameter"
        hint = f"; it has {', '.join(names)}" if node else ""
        if like:
            hint = f"; did you mean {prefix}{like[0]}?"
        super().__init__(f"{owner} {shown(bare)} (new=true would add it){hint}")
        self.name = name
        self.node = node


class CapacityError(BusError, OverflowError):
    """The bus holds as much of something as it may: `limit` of `what`."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"no room for more {what}: {limit} is the most")
        self.what = what
        self.limit = limit


class BusyError(BusError, RuntimeError):
    """As much of something is under way as may be, `limit` of `what`: try again."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{limit} {what} are under way, which is the most; try again")
        self.what = what
        self.limit = limit


class InvalidAnswerError(BusError, RuntimeError):
    """A handler did not answer as its service promises: a fault of the service, not of its caller."""

    def __init__(self, service: str, problem: str) -> None:
        super().__init__(f"the service {service} gave an answer that it should not: {problem}")
        self.service = service
        self.problem = problem


class ClosedError(BusError, RuntimeError):
    """A subscription that was closed and has nothing left to read."""

    def __init__(self, node: str) -> None:
        super().__init__(f"a subscription of the node {node} is closed")
        self.node = node


class NotKeptError(BusError, OSError):
    """What had to be kept across restarts could not be kept, so it was not done."""


def shown(value: Any) -> str:
    """`value` as JSON would show it, cut to a length fit for a sentence."""
    if isinstance(value, dict):
        return f"an object with {counted(len(value), 'member')}"
    if isinstance(value, (list, tuple)):
        return f"an array of {counted(len(value), 'element')}"
    if isinstance(value, str):
        text = value[:SHOWN]  # before the work, not after it
        return json.dumps(text, ensure_ascii=not text.isprintable()) + ("…" if len(value) > SHOWN else "")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = json.dumps(value, default=repr)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 argument, 2 arguments."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
