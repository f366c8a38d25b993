"""Parameters: a tree of names with JSON values, some of them declared by a node with a type and a range."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.bus.errors import BusyError, InvalidValueError, NameTakenError, UnknownNameError
from growd.bus.names import normalise
from growd.bus.parameter_rules import Declared, ParameterRules, TreeChange
from growd.bus.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from growd.bus.fields import Field

MAX_SETS: Final = 256
PATIENCE: Final = 8  # turns of the loop until the next request of a client that got its answer
_DELETED: Final[Any] = object()  # the value of a parameter to delete


class ParameterStore(Protocol):
    """Where parameters are saved."""

    async def save(self, changes: Mapping[str, Any], removed: Iterable[str]) -> None:
        """Save the changed leaves by name and delete the removed ones, in one durable step.

        The store may not have a removed leaf.
        """


@dataclass(eq=False, slots=True)
class _Set:
    """A set that waits to be saved. All of its values are set, or none; the answer is the first one."""

    values: Mapping[str, Any]
    node: str | None
    is_new: bool  # a client may set names that the node of the branch has not declared
    done: asyncio.Future[Any]

    def finish(self, outcome: Any) -> None:
        """Give the answer, or the error, to the caller, unless that was cancelled."""
        if self.done.done():
            return
        if isinstance(outcome, Exception):
            self.done.set_exception(outcome)
        else:
            self.done.set_result(outcome)


@dataclass(slots=True)
class _Write:
    """The leaves that the store changes and removes for several sets in a row."""

    changed: dict[str, Any] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)

    def add(self, each: _Set, changed: dict[str, Any], removed: list[str]) -> None:
        if _DELETED in each.values.values():  # defaults are not saved
            changed, removed = {}, [*removed, *changed]
        for leaf in removed:
            self.changed.pop(leaf, None)
        self.changed |= changed
        self.removed = self.removed.union(removed).difference(changed)


class Parameter(Declared):
    """A parameter that a node declared; `value` is the present one."""

    def __init__(self, tree: Parameters, name: str, field: Field, node: str, *, read_only: bool) -> None:
        super().__init__(name, field, node, read_only=read_only)
        self._tree = tree

    @property
    def value(self) -> Any:
        leaves = self._tree.leaves
        return leaves[self.name] if self.name in leaves else self._tree.get(self.name)

    async def set(self, value: Any) -> None:
        """Set it as its node; returns when it is saved."""
        await self._tree.set(self.name, value, node=self.node)

    def show(self, value: Any) -> None:
        """Show a value that is not saved: after a restart the default holds. Raises `InvalidValueError`.

        For a read-only parameter.
        """
        self._tree.show(self, value)


class Parameters:
    """The tree.

    A name is a leaf or a branch, never both. An object whose members can all be names is a branch (`a` =
    {"b": 1} is the leaf `a/b`); any other object, such as {} or {"x/y": 1}, is a leaf and is returned as it
    was set. Setting a name replaces everything at and beneath it, and a leaf above it, unless a node has
    declared that.

    Sets take effect in the order of their calls, once they are saved. Those that come while the store writes
    share its next write, since each write has to reach the disk.

    Values are JSON as a decoder gives it, without NaN. Callers do not change lists and objects afterwards.
    """

    def __init__(self, saved: Mapping[str, Any] | None = None, store: ParameterStore | None = None) -> None:
        self._tree = Tree(saved)
        self._rules = ParameterRules[Parameter]()
        self._declarations = 0  # how often a parameter was declared or undeclared
        self._store = store
        self._out_of_sync: frozenset[str] = frozenset()  # leaves whose stored value may differ
        self._waiting: list[_Set] = []
        self._under_way: list[_Set] = []
        self._saving: asyncio.Task[None] | None = None

    @property
    def leaves(self) -> Mapping[str, Any]:
        """The value of each leaf by its name."""
        return self._tree.leaves

    @property
    def size(self) -> int:
        """The bytes of all names and values; `MAX_BYTES` is the limit."""
        return self._tree.size

    def names(self) -> list[str]:
        """The names of all leaves, sorted."""
        return self._tree.names()

    def declared_names(self) -> list[str]:
        """The names of all declared parameters, sorted."""
        return sorted(self._rules.declared)

    def get(self, name: str) -> Any:
        """The value of a leaf, or the subtree of a branch; `UnknownNameError` if it is neither."""
        if name in self._tree:
            return self._tree.get(name)
        name = normalise(name)
        try:
            return self._tree.get(name)
        except KeyError:
            raise UnknownNameError("parameter", name) from None

    async def set(self, name: str, value: Any, *, node: str | None = None, is_new: bool = False) -> Any:
        """Set a leaf or replace a branch, and return its value once it is saved.

        `node` is the node that sets it; None is a client. With `is_new`, a client may set a name in the
        branch of a node that the node has not declared. Raises `InvalidValueError`, `ReadOnlyError`,
        `ConflictError`, `UndeclaredError`, `CapacityError`, `BusyError`, or an error of the store, and then
        nothing has changed. A caller that is cancelled does not know the outcome, but tree and store agree.
        """
        return await self._submit({normalise(name): value}, node, is_new=is_new)

    async def delete(self, name: str) -> Any:
        """Delete a leaf or a branch. A declared leaf gets its default, which is returned; else None.

        Raises `UnknownNameError`, `ConflictError` for a branch with declared parameters, or as `set`.
        """
        return await self._submit({normalise(name): _DELETED}, None)

    async def set_together(self, values: Mapping[str, Any], *, node: str | None = None) -> None:
        """Set declared parameters in one write of the store, all or none. Raises as `set`.

        Raises `UnknownNameError` for a name that is not declared.
        """
        for name in values:
            if name not in self._rules.declared:
                raise UnknownNameError("parameter", name)
        if values:
            await self._submit(values, node)

    def declare(self, name: str, field: Field, node: str, *, read_only: bool = False) -> Parameter:
        """Declare a parameter with a type, a range and a default.

        A saved value holds if it fits; otherwise the default takes its place. Undeclared parameters above or
        beneath the name are removed; `NameTakenError` or `ConflictError` if another declared parameter is
        there. With `read_only`, only the node sets it.
        """
        name = normalise(name)
        if name in self._rules.declared:
            raise NameTakenError("parameter", name)
        if field.required:
            raise ValueError(f"the parameter {name} is declared without a default")
        value = default = field.check(field.default)
        in_the_way = self._rules.in_the_way(self._tree, name)
        self._tree.change({}, in_the_way)
        self._out_of_sync = self._out_of_sync.union(in_the_way)
        if name in self._tree:
            try:
                value = field.check(self._tree.get(name))
            except InvalidValueError:
                value = default
        self._tree.put(name, value)
        parameter = Parameter(self, name, field, node, read_only=read_only)
        self._rules.add(parameter)
        self._declarations += 1
        return parameter

    def show(self, parameter: Parameter, value: Any) -> None:
        """Change a declared leaf without saving it; see `Parameter.show`."""
        checked = parameter.field.check(value)
        if self._rules.declared.get(parameter.name) is parameter:
            self._tree.put(parameter.name, checked)

    def undeclare(self, parameter: Parameter) -> None:
        """Keep its value as that of an undeclared parameter."""
        self._rules.remove(parameter.name)
        self._declarations += 1

    def declared(self, name: str) -> Parameter | None:
        return self._rules.declared.get(name)

    async def close(self) -> None:
        """Wait for the sets that are under way, also those whose callers were cancelled."""
        if self._saving is not None:
            await asyncio.wait([self._saving])

    async def _submit(self, values: Mapping[str, Any], node: str | None, *, is_new: bool = False) -> Any:
        if len(self._waiting) + len(self._under_way) >= MAX_SETS:
            raise BusyError("sets of parameters", MAX_SETS)
        this = _Set(values, node, is_new, asyncio.get_running_loop().create_future())
        self._waiting.append(this)
        if self._saving is None:
            self._saving = asyncio.create_task(self._save_all(), name="parameters: save")
        return await this.done

    async def _save_all(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                self._under_way, self._waiting = self._waiting, []
                await self._save_together(self._under_way)
                self._under_way = []
        finally:
            for each in (*self._under_way, *self._waiting):
                each.done.cancel()  # does nothing if it is done: only if this task was cancelled
            self._under_way = []
            self._saving = None

    async def _gather(self) -> None:
        """Wait for sets that are on their way, so that they share a write of the card."""
        patience = PATIENCE
        while patience and len(self._waiting) < MAX_SETS // 2:
            count = len(self._waiting)
            await asyncio.sleep(0)
            patience = PATIENCE if len(self._waiting) > count else patience - 1

    async def _save_together(self, sets: list[_Set]) -> None:
        """Save these sets in one write, then change the tree, as if each were alone."""
        is_stored_wrong = False
        while True:
            declarations = self._declarations
            planned, write = self._planned_together(sets)
            if write.changed or write.removed or is_stored_wrong:
                try:
                    await self._save(write)
                except Exception as error:  # noqa: BLE001  the callers get it
                    planned = [
                        (each, error if isinstance(plan, TreeChange) else plan) for each, plan in planned
                    ]
                    break
            if declarations == self._declarations:
                break
            is_stored_wrong = True  # a node has declared something meanwhile, which may forbid a set
            self._out_of_sync = self._out_of_sync.union(write.changed, write.removed)
        for each, plan in planned:
            each.finish(self._made(each, plan) if isinstance(plan, TreeChange) else plan)

    def _planned_together(self, sets: list[_Set]) -> tuple[list[tuple[_Set, TreeChange | Exception]], _Write]:
        """What each set changes in this order, or why it is refused, and what the store has to write."""
        draft = self._tree if len(sets) == 1 else self._tree.copy()
        planned: list[tuple[_Set, TreeChange | Exception]] = []
        write = _Write()
        for each in sets:
            try:
                change = self._planned(draft, each)
            except Exception as error:  # noqa: BLE001  the caller gets it
                planned.append((each, error))
                continue
            if draft is not self._tree:
                draft.change(*change)
            write.add(each, *change)
            planned.append((each, change))
        return planned, write

    def _made(self, each: _Set, change: TreeChange) -> Any:
        """Change the tree by a saved set: the answer."""
        self._tree.change(*change)
        name, value = next(iter(each.values.items()))
        return None if value is _DELETED and name not in self._tree else self._tree.get(name)

    def _planned(self, tree: Tree, each: _Set) -> TreeChange:
        changed: dict[str, Any] = {}
        removed: list[str] = []
        for name, value in each.values.items():  # several are declared, so that none is above another
            if value is _DELETED:
                plan = self._rules.plan_delete(tree, name)
            else:
                plan = self._rules.plan_set(tree, name, value, each.node)
                if each.node is None and not each.is_new:
                    self._rules.check_new(tree, plan.changed)
            changed |= plan.changed
            removed += plan.removed
        return TreeChange(changed, removed)

    async def _save(self, write: _Write) -> None:
        """Write it, and the leaves that are out of sync."""
        if self._store is None:
            return
        out_of_sync, self._out_of_sync = self._out_of_sync, frozenset()
        changed, removed = write.changed.copy(), write.removed.copy()
        for leaf in out_of_sync.difference(changed, removed):
            if self._is_saved(leaf):
                changed[leaf] = self._tree.get(leaf)
            else:
                removed.add(leaf)
        try:
            await self._store.save(changed, removed)
        except BaseException:
            self._out_of_sync |= out_of_sync
            raise

    def _is_saved(self, leaf: str) -> bool:
        """Defaults and removed leaves are not saved."""
        if leaf not in self._tree.leaves:
            return False
        declared = self._rules.declared.get(leaf)
        return declared is None or self._tree.get(leaf) != declared.field.default
