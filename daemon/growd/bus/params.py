"""Parameters: a tree of names with JSON values, some of them declared by a node with a type and a range."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.bus.errors import (
    BusyError,
    CapacityError,
    ConflictError,
    InvalidValueError,
    NameTakenError,
    ReadOnlyError,
    UndeclaredError,
    UnknownNameError,
    counted,
    shown,
)
from growd.bus.names import MAX_NAME, is_segment, normalise
from growd.bus.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from growd.bus.fields import Field

MAX_PARAMETERS: Final = 10_000
MAX_SETS: Final = 256
_GONE: Final[Any] = object()  # the value of a parameter that is deleted
ALIKE: Final = 0.9  # two names of environments, as difflib measures it, so that one may be a misspelt other
PATIENCE: Final = 8  # turns of the loop: from an answer until the client's next request is in its handler


class ParameterStore(Protocol):
    """Where parameters are kept across restarts."""

    async def save(self, changes: Mapping[str, Any], removed: Iterable[str]) -> None:
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

    def tell(self, value: Any) -> None:
        """Show a value that is true at this moment: it is not kept, and after a restart the default holds.

        For a read-only parameter, which nobody else sets. Raises `InvalidValueError`.
        """
        self._tree.tell(self, value)


@dataclass(eq=False, slots=True)
class _Set:
    """A set that waits to be kept; `done` gets the value that holds then, or why it does not.

    Of several values all or none are made; the answer is that of the first. With `is_new`, a client may set
    what a node has not declared in its branch.
    """

    values: Mapping[str, Any]
    node: str | None
    is_new: bool
    done: asyncio.Future[Any]
    answer: Any = None  # what stands at the name when it is made

    @property
    def name(self) -> str:
        return next(iter(self.values))

    def note(self, tree: Tree) -> None:
        """Note the answer, now that it is made in this tree."""
        is_gone = self.values[self.name] is _GONE and self.name not in tree
        self.answer = None if is_gone else tree.get(self.name)

    def kept(self, changes: dict[str, Any], removed: list[str]) -> tuple[dict[str, Any], list[str]]:
        """What the store changes and removes, where these leaves of the tree do.

        A declared parameter that is deleted has its default in the tree, and is not kept.
        """
        if self.values[self.name] is _GONE:
            return {}, [*removed, *changes]
        return changes, removed

    def succeed(self) -> None:
        if not self.done.done():  # whoever waited was cancelled
            self.done.set_result(self.answer)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class _Write:
    """The leaves that several sets change and remove when they are made one after another."""

    def __init__(self) -> None:
        self.changes: dict[str, Any] = {}
        self.removed: set[str] = set()

    def add(self, changes: dict[str, Any], removed: list[str]) -> None:
        for leaf in removed:
            self.changes.pop(leaf, None)
        self.changes |= changes
        self.removed = self.removed.union(removed).difference(changes)


class Parameters:
    """The tree.

    A name is a leaf or a branch, never both. An object whose members can all be names is a branch (`a` =
    {"b": 1} is the leaf `a/b`); any other object, such as {} or {"x/y": 1}, is a leaf and comes back as it
    was set. Setting a name replaces all that stood at and beneath it.

    Sets are made in the order of their calls. Those that come while the store writes share its next write,
    since each has to reach the disk.

    Values are JSON as a decoder gives it, without NaN. Nobody changes a list or object that was set or got.
    """

    def __init__(self, kept: Mapping[str, Any] | None = None, store: ParameterStore | None = None) -> None:
        self._tree = Tree(kept)
        self._declared: dict[str, Parameter] = {}
        self._branches: Counter[str] = Counter()  # nodes with declared parameters beneath their names
        self._store = store
        self._astray: frozenset[str] = frozenset()  # leaves that the store may keep otherwise than the tree
        self._declarations = 0  # how often the tree has changed beside what is set
        self._waiting: list[_Set] = []
        self._under_way: list[_Set] = []
        self._keeping: asyncio.Task[None] | None = None

    def names(self) -> list[str]:
        """The names of all leaves, sorted."""
        return self._tree.names()

    def declared_names(self) -> list[str]:
        """The names of those that a node has declared, sorted."""
        return sorted(self._declared)

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
        """Set a leaf or replace a branch, and return what stands there once it is kept.

        `node` is the node that sets it; None is a client. With `is_new`, a client may set a name in the
        branch of a node that the node has not declared. Raises `InvalidValueError`, `ReadOnlyError`,
        `ConflictError`, `UndeclaredError`, `CapacityError`, `BusyError` or what the store raises, and then
        nothing has changed. A caller that is cancelled while the store writes does not know the outcome, but
        tree and store agree.
        """
        return await self._kept({normalise(name): value}, node, is_new=is_new)

    async def delete(self, name: str) -> Any:
        """Delete a leaf or a branch. A declared leaf gets its default, which is returned; else None.

        Raises `UnknownNameError`, `ReadOnlyError`, `ConflictError` for a branch with declared parameters, or
        what else `set` raises.
        """
        return await self._kept({normalise(name): _GONE}, None)

    async def set_together(self, values: Mapping[str, Any], *, node: str | None = None) -> None:
        """Set declared parameters, all of them in one write of the store, or none; otherwise as `set` does.

        Raises `UnknownNameError` too, for a name that nobody has declared.
        """
        for name in values:
            if name not in self._declared:
                raise UnknownNameError("parameter", name)
        if values:
            await self._kept(values, node)

    async def _kept(self, values: Mapping[str, Any], node: str | None, *, is_new: bool = False) -> Any:
        if len(self._waiting) + len(self._under_way) >= MAX_SETS and self._open_sets() >= MAX_SETS:
            raise BusyError("sets of parameters", MAX_SETS)
        this = _Set(values, node, is_new, asyncio.get_running_loop().create_future())
        self._waiting.append(this)
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep_all(), name="parameters: keep what is set")
        return await this.done

    def _open_sets(self) -> int:
        """Those that have no answer yet: some that are under way together have one before the others."""
        return sum(not each.done.done() for each in (*self._waiting, *self._under_way))

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
        self._declarations += 1
        self._make_room(name)
        if name in self._tree:
            try:
                value = field.check(self._tree.get(name))
            except InvalidValueError:
                value = default
        self._tree.put(name, value)
        parameter = self._declared[name] = Parameter(self, name, field, node, read_only=read_only)
        if name.startswith(f"{node}/"):
            self._branches[node] += 1
        return parameter

    def tell(self, parameter: Parameter, value: Any) -> None:
        """Change a declared leaf in the tree alone; see `Parameter.tell`."""
        checked = parameter.field.check(value)
        if self._declared.get(parameter.name) is parameter:
            self._declarations += 1  # a set that is being kept must not bring the old value back
            self._tree.put(parameter.name, checked)

    def undeclare(self, parameter: Parameter) -> None:
        """Its value stays, as a parameter like any other."""
        self._declarations += 1
        self._declared.pop(parameter.name, None)
        if parameter.name.startswith(f"{parameter.node}/"):
            self._branches[parameter.node] -= 1
            self._branches += Counter()  # keeps only those above 0

    def declared(self, name: str) -> Parameter | None:
        return self._declared.get(name)

    async def close(self) -> None:
        """Wait for the sets that are under way, also those whose callers were cancelled."""
        if self._keeping is not None:
            await asyncio.wait([self._keeping])

    async def _keep_all(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                self._under_way, self._waiting = self._waiting, []
                await self._keep_together(self._under_way)
        finally:
            for each in (*self._under_way, *self._waiting):
                each.done.cancel()  # if it is not done: this task was cancelled
            self._under_way = []
            self._keeping = None

    async def _gather(self) -> None:
        """Let the sets join that are on their way: each write saved is one less that the card must take."""
        patience = PATIENCE
        while patience and len(self._waiting) < MAX_SETS // 2:
            count = len(self._waiting)
            await asyncio.sleep(0)
            patience = PATIENCE if len(self._waiting) > count else patience - 1

    async def _keep_together(self, sets: list[_Set]) -> None:
        """Make these sets in one write of the store, each as if it were alone."""
        declarations = self._declarations
        draft = self._tree.copy()
        accepted, write = self._drafted(sets, draft)
        if not accepted:
            return
        try:
            await self._save(write)
        except Exception as error:  # noqa: BLE001  it belongs to those who wait, whatever it is
            if len(accepted) == 1:
                accepted[0].fail(error)
            else:  # one that can't be kept does not take the others with it
                for each in accepted:
                    await self._keep_together([each])
            return
        if declarations == self._declarations:
            self._tree = draft
            for each in accepted:
                each.succeed()
            return
        made = _Write()
        outcomes = [(each, self._made(each, made)) for each in accepted]
        if (made.changes, made.removed) != (write.changes, write.removed):
            self._astray = self._astray.union(write.changes, write.removed, made.changes, made.removed)
            await self._put_right()
        for each, refusal in outcomes:
            each.succeed() if refusal is None else each.fail(refusal)

    def _drafted(self, sets: list[_Set], draft: Tree) -> tuple[list[_Set], _Write]:
        """The sets that can be made in this order, made in `draft`; the others are refused."""
        accepted, write = [], _Write()
        for each in sets:
            try:
                changes, removed = self._planned(draft, each)
            except Exception as error:  # noqa: BLE001  it belongs to the one who waits, whatever it is
                each.fail(error)
                continue
            draft.change(changes, removed)
            each.note(draft)
            write.add(*each.kept(changes, removed))
            accepted.append(each)
        return accepted, write

    def _made(self, each: _Set, made: _Write) -> Exception | None:
        """Make a set that is kept, or tell why it can't be: a node has declared something meanwhile."""
        try:
            changes, removed = self._planned(self._tree, each)
            self._tree.change(changes, removed)
            each.note(self._tree)
        except Exception as error:  # noqa: BLE001  it belongs to the one who waits, whatever it is
            return error
        made.add(*each.kept(changes, removed))
        return None

    async def _save(self, write: _Write) -> None:
        """Write it, and with it what is astray."""
        if self._store is None:
            return
        astray, self._astray = self._astray, frozenset()
        changes, removed = write.changes.copy(), write.removed.copy()
        for leaf in astray.difference(changes, removed):
            if self._is_to_be_kept(leaf):
                changes[leaf] = self._tree.get(leaf)
            else:
                removed.add(leaf)
        try:
            await self._store.save(changes, removed)
        except BaseException:
            self._astray |= astray
            raise

    async def _put_right(self) -> None:
        """Make the store keep what the tree holds; if it can't, the next write does."""
        with suppress(Exception):
            await self._save(_Write())

    def _is_to_be_kept(self, leaf: str) -> bool:
        """Not what is no leaf, nor a default: it comes with its declaration."""
        if leaf not in self._tree.leaves:
            return False
        declared = self._declared.get(leaf)
        return declared is None or self._tree.get(leaf) != declared.field.default

    def _planned(self, tree: Tree, this: _Set) -> tuple[dict[str, Any], list[str]]:
        """The leaves of `tree` that a set changes, checked against what is declared, and those it removes."""
        changes: dict[str, Any] = {}
        removed: list[str] = []
        for name, value in this.values.items():  # several are declared, so that none stands above another
            if value is _GONE:
                more, fewer = self._planned_without(tree, name)
            else:
                more, fewer = self._planned_at(tree, name, value, this.node)
                if this.node is None:
                    self._check_client(tree, name, more, is_new=this.is_new)
            changes |= more
            removed += fewer
        return changes, removed

    def _planned_at(
        self, tree: Tree, name: str, value: Any, node: str | None
    ) -> tuple[dict[str, Any], list[str]]:
        above = tree.leaf_above(name)
        if above is not None:
            raise ConflictError(name, f"{shown(above)} above it has a value of its own")
        changes = self._leaves_of(name, value)
        standing = [name] if name in tree else tree.beneath(name)
        for leaf in standing:
            if leaf in self._declared:
                changes[leaf] = self._checked(name, node, leaf, changes)
        growth = len(changes) - len(standing)
        if growth > 0 and len(tree) + growth > MAX_PARAMETERS:
            raise CapacityError("parameters", MAX_PARAMETERS)
        return changes, [leaf for leaf in standing if leaf not in changes]

    def _planned_without(self, tree: Tree, name: str) -> tuple[dict[str, Any], list[str]]:
        standing = [name] if name in tree else tree.beneath(name)
        if not standing:
            raise UnknownNameError("parameter", name)
        declared = [self._declared[leaf] for leaf in standing if leaf in self._declared]
        if not declared:
            return {}, standing
        parameter = declared[0]
        if parameter.name != name:
            reason = f"the node {parameter.node} has declared {shown(parameter.name)} in it"
            raise ConflictError(name, reason, "deleted")
        if parameter.read_only:
            raise ReadOnlyError(name, parameter.node)
        return {name: parameter.field.check(parameter.field.default)}, []

    def _check_client(self, tree: Tree, name: str, changes: dict[str, Any], *, is_new: bool) -> None:
        """Refuse what a client has probably not meant: one value for a whole branch, a name with a typo."""
        beneath = tree.beneath(name) if name in changes else []
        if beneath:
            reason = f"it is a branch with {counted(len(beneath), 'parameter')}; delete it first"
            raise ConflictError(name, reason)
        new = [leaf for leaf in changes if leaf not in tree and leaf not in self._declared]
        if is_new or not new:
            return
        for leaf in new:
            self._check_branch(leaf)
        self._check_root(new)

    def _check_root(self, leaves: list[str]) -> None:
        """Refuse leaves in an environment, or whose names look like declared ones.

        The user's own are beneath a first segment that is not much like one of growd's, or have no other.
        """
        roots = {node.partition("/")[0] for node in self._branches}
        owned = [each.name for each in self._declared.values() if each.node in self._branches]
        endings = {part for name in owned for part in _endings(name)}
        for leaf in leaves:
            root, slash, _ = leaf.partition("/")
            if slash and (get_close_matches(root, roots, 1, cutoff=ALIKE) or leaf in endings):
                raise UndeclaredError(leaf, "", sorted(self._declared))

    def _check_branch(self, leaf: str) -> None:
        """Refuse a leaf in the branch of a node that has declared parameters there, and not this one."""
        node = leaf
        while "/" in node:
            node = node.rpartition("/")[0]
            if node in self._branches:
                beneath = [name for name in self._declared if name.startswith(f"{node}/")]
                raise UndeclaredError(leaf, node, sorted(beneath))

    def _checked(self, name: str, node: str | None, declared: str, changes: dict[str, Any]) -> Any:
        """The new value of a declared leaf that stands at or beneath what is set."""
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

    def _leaves_of(self, name: str, value: Any) -> dict[str, Any]:
        """The leaves of `value` when it is set at `name`."""
        leaves: dict[str, Any] = {}
        for leaf, leaf_value in self._flattened(name, value):
            leaves[leaf] = leaf_value
            if len(leaves) > MAX_PARAMETERS:  # before all of them are made
                raise CapacityError("parameters", MAX_PARAMETERS)
        return leaves

    def _flattened(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Name and value of each leaf; a declared leaf keeps an object whole."""
        if name in self._declared or not _is_branch(name, value):
            yield name, value
            return
        for key, member in value.items():
            yield from self._flattened(f"{name}/{key}", member)

    def _make_room(self, name: str) -> None:
        """Remove what stands above or beneath a name that is being declared."""
        above = self._tree.leaf_above(name)
        in_the_way = self._tree.beneath(name) if above is None else [above]
        for leaf in in_the_way:
            if leaf in self._declared:
                raise ConflictError(name, f"the node {self._declared[leaf].node} has declared {shown(leaf)}")
        self._tree.change({}, in_the_way)
        self._astray = self._astray.union(in_the_way)


def _endings(name: str) -> Iterator[str]:
    """What a name ends in, of two segments or more."""
    _, _, rest = name.partition("/")
    while "/" in rest:
        yield rest
        _, _, rest = rest.partition("/")


def _is_branch(name: str, value: Any) -> bool:
    """Whether `value` is an object whose members can all be names beneath `name`."""
    room = MAX_NAME - len(name) - 1
    return (
        isinstance(value, dict) and bool(value) and all(is_segment(key) and len(key) <= room for key in value)
    )
