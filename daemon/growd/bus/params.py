"""Parameters: a tree of names with JSON values, some of them declared by a node with a type and a range."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Final, Protocol

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

MAX_PARAMETERS: Final = 10_000
MAX_SETS: Final = 256


class ParameterStore(Protocol):
    """Where parameters are kept across restarts."""

    async def save(self, changes: Mapping[str, Any], removed: list[str]) -> None:
        """Keep the changed leaves by name and forget the removed ones, in one step, durably.

        A removed leaf need not be known to the store.
        """


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

    Values are JSON as a decoder gives it, without NaN. Nobody changes a list or object that was set or got.
    """

    def __init__(self, kept: Mapping[str, Any] | None = None, store: ParameterStore | None = None) -> None:
        self._leaves: dict[str, Any] = dict(kept or {})
        self._names = sorted(self._leaves)  # what is beneath a name stands together
        self._declared: dict[str, Parameter] = {}
        self._store = store
        self._stale: set[str] = set()  # leaves that a declaration pushed out, but the store still keeps
        self._lock = asyncio.Lock()
        self._sets: set[asyncio.Task[None]] = set()

    def names(self) -> list[str]:
        """The names of all leaves, sorted."""
        return self._names.copy()

    def get(self, name: str) -> Any:
        """The value of a leaf, or the subtree of a branch; `UnknownNameError` if it is neither."""
        if name in self._leaves:
            return self._leaves[name]
        name = normalise(name)
        if name in self._leaves:
            return self._leaves[name]
        beneath = self._beneath(name)
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

    async def set(self, name: str, value: Any, *, node: str | None = None) -> Any:
        """Set a leaf or replace a branch, and return what stands there once it is kept.

        `node` is the node that sets it; None is a client. Raises `InvalidValueError`, `ReadOnlyError`,
        `ConflictError`, `CapacityError` or what the store raises, and then nothing has changed. A caller
        that is cancelled while the store writes does not know the outcome, but tree and store agree.
        """
        name = normalise(name)
        if len(self._sets) >= MAX_SETS:
            raise CapacityError("sets of parameters at a time", MAX_SETS)
        task = asyncio.create_task(self._set(name, value, node), name=f"set the parameter {name}")
        self._sets.add(task)
        task.add_done_callback(self._sets.discard)
        return await asyncio.shield(task)

    def declare(self, name: str, field: Field, node: str, *, read_only: bool = False) -> Parameter:
        """Declare a parameter with a type, a range and a default.

        A value that was kept holds if it still fits; otherwise the default takes its place. What clients
        set above or beneath the name gives way; `NameTakenError` or `ConflictError` if another declared
        parameter stands in the way. With `read_only`, only the node itself sets it.
        """
        name = normalise(name)
        if name in self._declared:
            raise NameTakenError("parameter", name)
        if field.required:
            raise ValueError(f"the parameter {name} is declared without a default")
        value = default = field.check(field.default)
        self._make_room(name)
        if name in self._leaves:
            try:
                value = field.check(self._leaves[name])
            except InvalidValueError:
                value = default
        self._put(name, value)
        parameter = self._declared[name] = Parameter(self, name, field, node, read_only=read_only)
        return parameter

    def undeclare(self, parameter: Parameter) -> None:
        """Its value stays, as a parameter like any other."""
        self._declared.pop(parameter.name, None)

    def declared(self, name: str) -> Parameter | None:
        return self._declared.get(name)

    async def close(self) -> None:
        """Wait for the sets that are under way, also those whose callers were cancelled."""
        if self._sets:
            await asyncio.wait(self._sets)

    async def _set(self, name: str, value: Any, node: str | None) -> Any:
        async with self._lock:
            changes, removed = self._planned(name, value, node)
            if self._store is not None:
                stale = self._stale - changes.keys()
                await self._store.save(changes, [*removed, *sorted(stale)])
                self._stale -= stale | changes.keys()
                # a node may have declared something while the store was writing
                changes, removed = self._planned(name, value, node)
            for leaf in removed:
                self._drop(leaf)
            for leaf, new in changes.items():
                self._put(leaf, new)
            return self.get(name)

    def _planned(self, name: str, value: Any, node: str | None) -> tuple[dict[str, Any], list[str]]:
        """The leaves that setting `name` changes, checked against what is declared, and those it removes."""
        above = self._leaf_above(name)
        if above is not None:
            raise ConflictError(name, f"{shown(above)} above it has a value of its own")
        changes = dict(self._flattened(name, value))
        standing = [name] if name in self._leaves else self._beneath(name)
        for leaf in standing:
            if leaf in self._declared:
                changes[leaf] = self._checked(name, leaf, changes, node)
        growth = len(changes) - len(standing)
        if growth > 0 and len(self._leaves) + growth > MAX_PARAMETERS:
            raise CapacityError("parameters", MAX_PARAMETERS)
        return changes, [leaf for leaf in standing if leaf not in changes]

    def _checked(self, name: str, declared: str, changes: dict[str, Any], node: str | None) -> Any:
        """The new value of a declared leaf when `name`, at or above it, is set."""
        parameter = self._declared[declared]
        if declared not in changes:
            raise ConflictError(
                name, f"that would remove {shown(declared)}, which the node {parameter.node} needs"
            )
        if parameter.read_only and node != parameter.node:
            raise ReadOnlyError(declared, parameter.node)
        try:
            return parameter.field.check(changes[declared])
        except InvalidValueError as error:
            raise InvalidValueError(declared, error.expected, error.value) from None

    def _flattened(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """The leaves of `value` when it is set at `name`; a declared leaf keeps an object whole."""
        if name in self._declared or not _is_branch(name, value):
            yield name, value
            return
        for key, member in value.items():
            yield from self._flattened(f"{name}/{key}", member)

    def _make_room(self, name: str) -> None:
        """Remove what stands above or beneath a name that is being declared."""
        above = self._leaf_above(name)
        in_the_way = self._beneath(name) if above is None else [above]
        for leaf in in_the_way:
            if leaf in self._declared:
                raise ConflictError(name, f"the node {self._declared[leaf].node} has declared {shown(leaf)}")
        for leaf in in_the_way:
            self._drop(leaf)
        self._stale.update(in_the_way)

    def _leaf_above(self, name: str) -> str | None:
        """The leaf on the way to `name`, if there is one: nothing can stand beneath it."""
        while "/" in name:
            name = name.rpartition("/")[0]
            if name in self._leaves:
                return name
        return None

    def _beneath(self, name: str) -> list[str]:
        """All leaves beneath a name, if it is a branch."""
        begin = bisect_left(self._names, name + "/")
        end = bisect_left(self._names, name + chr(ord("/") + 1), begin)
        return self._names[begin:end]

    def _put(self, leaf: str, value: Any) -> None:
        if leaf not in self._leaves:
            insort(self._names, leaf)
        self._leaves[leaf] = value

    def _drop(self, leaf: str) -> None:
        del self._leaves[leaf]
        del self._names[bisect_left(self._names, leaf)]


def _is_branch(name: str, value: Any) -> bool:
    """Whether `value` is an object whose members can all be names beneath `name`."""
    room = MAX_NAME - len(name) - 1
    return (
        isinstance(value, dict) and bool(value) and all(is_segment(key) and len(key) <= room for key in value)
    )
