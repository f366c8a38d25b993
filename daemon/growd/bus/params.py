"""Parameters: a tree of names with JSON values, some of them declared by a node with a type and a range."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from growd.bus.errors import (
    CapacityError,
    ConflictError,
    InvalidValueError,
    NameTakenError,
    ReadOnlyError,
    UnknownNameError,
    shown,
)
from growd.bus.names import MAX_NAME, is_segment, normalise

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd.bus.fields import Field

MAX_PARAMETERS = 10_000


class ParameterStore(Protocol):
    """Where parameters are kept across restarts."""

    async def save(self, changes: Mapping[str, Any], removed: list[str]) -> None:
        """Keep the changed leaves by name and forget the removed ones, in one step, durably."""


class Parameter:
    """A parameter that a node declared: `value` is what holds now."""

    def __init__(self, tree: Parameters, name: str, field: Field, node: str, *, read_only: bool) -> None:
        self.name = name
        self.field = field
        self.node = node
        self.read_only = read_only
        self._tree = tree

    @property
    def value(self) -> Any:
        return self._tree.get(self.name)

    async def set(self, value: Any) -> None:
        """Set it as its own node does; returns when it is kept."""
        await self._tree.set(self.name, value, node=self.node)


class Parameters:
    """The tree.

    A name is a leaf or a branch, never both. An object whose members can all be names is a branch (`a` =
    {"b": 1} is the leaf `a/b`); any other object, such as {} or {"x/y": 1}, is a leaf and comes back as it
    was set. Setting a name replaces all that stood at and beneath it.
    """

    def __init__(self, kept: Mapping[str, Any] | None = None, store: ParameterStore | None = None) -> None:
        self._leaves: dict[str, Any] = dict(kept or {})
        self._declared: dict[str, Parameter] = {}
        self._store = store
        self._lock = asyncio.Lock()

    def names(self) -> list[str]:
        """The names of all leaves, sorted."""
        return sorted(self._leaves)

    def get(self, name: str) -> Any:
        """The value of a leaf, or the subtree of a branch; `UnknownNameError` if it is neither."""
        if name in self._leaves:
            return self._leaves[name]
        name = normalise(name)
        if name in self._leaves:
            return self._leaves[name]
        beneath = list(self._beneath(name))
        if not beneath:
            raise UnknownNameError("parameter", name)
        subtree: dict[str, Any] = {}
        for leaf in beneath:
            *branches, last = leaf[len(name) + 1 :].split("/")
            place = subtree
            for branch in branches:
                place = place.setdefault(branch, {})
            place[last] = self._leaves[leaf]
        return subtree

    async def set(self, name: str, value: Any, *, node: str | None = None) -> None:
        """Set a leaf or replace a branch, and return once it is kept.

        `node` is the node that sets it; None is a client. Raises `InvalidValueError`, `ReadOnlyError`,
        `ConflictError` or `CapacityError`, and then nothing has changed.
        """
        name = normalise(name)
        async with self._lock:
            changes = self._checked(name, value, node)
            removed = [leaf for leaf in (name, *self._beneath(name)) if leaf in self._leaves]
            removed = [leaf for leaf in removed if leaf not in changes]
            if len(self._leaves) + len(changes) - len(removed) > MAX_PARAMETERS:
                raise CapacityError(f"there are {len(self._leaves)} parameters; {MAX_PARAMETERS} is the most")
            if self._store is not None:
                await self._store.save(changes, removed)
            for leaf in removed:
                del self._leaves[leaf]
            self._leaves.update(changes)

    def declare(self, name: str, field: Field, node: str, *, read_only: bool = False) -> Parameter:
        """Declare a parameter with a type, a range and a default.

        A value that was kept holds if it still fits; otherwise the default takes its place. With
        `read_only`, only the node itself sets it.
        """
        name = normalise(name)
        if name in self._declared:
            raise NameTakenError("parameter", name)
        self._refuse_leaf_above(name)
        parameter = Parameter(self, name, field, node, read_only=read_only)
        for leaf in list(self._beneath(name)):
            del self._leaves[leaf]  # kept from a time when this name was a branch
        try:
            self._leaves[name] = field.check(self._leaves[name])
        except (KeyError, InvalidValueError):
            self._leaves[name] = field.check(field.default)
        self._declared[name] = parameter
        return parameter

    def undeclare(self, parameter: Parameter) -> None:
        """Its value stays, as a parameter like any other."""
        self._declared.pop(parameter.name, None)

    def declared(self, name: str) -> Parameter | None:
        return self._declared.get(name)

    def _checked(self, name: str, value: Any, node: str | None) -> dict[str, Any]:
        """The leaves that setting `name` makes, each checked against its declaration."""
        self._refuse_leaf_above(name)
        changes = dict(_flatten(name, value))
        if name in self._declared:
            changes = {name: value}  # a declared leaf keeps an object whole
        for declared in [leaf for leaf in self._declared if leaf == name or leaf.startswith(name + "/")]:
            parameter = self._declared[declared]
            if declared not in changes:
                raise ConflictError(
                    f"setting {shown(name)} would remove the parameter {shown(declared)}, "
                    f"which the node {parameter.node} needs"
                )
            changes[declared] = self._checked_declared(parameter, changes[declared], node)
        for leaf in changes:
            if len(leaf) > MAX_NAME:
                raise ConflictError(f"the name {shown(leaf)} would be longer than {MAX_NAME} characters")
            self._refuse_leaf_above(leaf, but=name)
        return changes

    def _checked_declared(self, parameter: Parameter, value: Any, node: str | None) -> Any:
        if parameter.read_only and node != parameter.node:
            raise ReadOnlyError(parameter.name, parameter.node)
        try:
            return parameter.field.check(value)
        except InvalidValueError as error:
            raise InvalidValueError(parameter.name, error.expected, error.value) from None

    def _refuse_leaf_above(self, name: str, but: str | None = None) -> None:
        """A leaf can't have anything beneath it; `but` is about to be replaced and does not count."""
        parent = name
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent == but:
                return
            if parent in self._leaves:
                raise ConflictError(
                    f"{shown(parent)} is a parameter with a value of its own, so it can't have "
                    f"{shown(name)} beneath it"
                )

    def _beneath(self, name: str) -> Iterator[str]:
        prefix = name + "/"
        return (leaf for leaf in self._leaves if leaf.startswith(prefix))


def _flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and all(is_segment(key) for key in value):
        for key, member in value.items():
            yield from _flatten(f"{name}/{key}", member)
    else:
        yield name, value
