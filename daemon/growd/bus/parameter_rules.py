"""What a set of parameters changes in the tree, checked against the parameters that nodes have declared."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from growd.bus.errors import (
    CapacityError,
    ConflictError,
    InvalidValueError,
    ReadOnlyError,
    UndeclaredError,
    UnknownNameError,
    shown,
)
from growd.bus.names import MAX_NAME, is_segment
from growd.bus.tree import size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.bus.fields import Field
    from growd.bus.tree import Tree

MAX_PARAMETERS: Final = 10_000
MAX_BYTES: Final = 4_000_000
"""Of the names and values (JSON) of all parameters."""


class Declared:
    """What a node has declared of a parameter."""

    def __init__(self, name: str, field: Field, node: str, *, read_only: bool) -> None:
        self.name = name
        self.field = field
        self.node = node
        self.read_only = read_only


D = TypeVar("D", bound=Declared)


class TreeChange(NamedTuple):
    """The leaves that a set changes and those that it removes."""

    changed: dict[str, Any]
    removed: list[str]


class ParameterRules(Generic[D]):
    """The declared parameters by name, and what sets and deletions change beside them."""

    def __init__(self) -> None:
        self.declared: dict[str, D] = {}
        self._branches: Counter[str] = Counter()  # nodes with declared parameters beneath their names

    def add(self, parameter: D) -> None:
        self.declared[parameter.name] = parameter
        if parameter.name.startswith(f"{parameter.node}/"):
            self._branches[parameter.node] += 1

    def remove(self, name: str) -> None:
        parameter = self.declared.pop(name, None)
        if parameter and name.startswith(f"{parameter.node}/"):
            self._branches[parameter.node] -= 1
            self._branches += Counter()  # removes those at 0

    def plan_set(self, tree: Tree, name: str, value: Any, node: str | None) -> TreeChange:
        """The change when `node` (None: a client) sets `name`. Raises as `Parameters.set` does."""
        above = tree.leaf_above(name)
        if above in self.declared:
            raise ConflictError(name, f"the node {self.declared[above].node} has declared {shown(above)}")
        changed = self._leaves_of(name, value)
        present = tree.at_or_beneath(name) if above is None else [above]
        for leaf in present:
            if leaf in self.declared:
                changed[leaf] = self._checked(name, node, leaf, changed)
        growth = len(changed) - len(present)
        if growth > 0 and len(tree) + growth > MAX_PARAMETERS:
            raise CapacityError("parameters", MAX_PARAMETERS)
        self._check_size(tree, changed, present)
        return TreeChange(changed, [leaf for leaf in present if leaf not in changed])

    def plan_delete(self, tree: Tree, name: str) -> TreeChange:
        """The change when `name` is deleted: a declared leaf gets its default."""
        present = tree.at_or_beneath(name)
        if not present:
            raise UnknownNameError("parameter", name)
        first = next((leaf for leaf in present if leaf in self.declared), None)
        if first is None:
            return TreeChange({}, present)
        parameter = self.declared[first]
        if first != name:
            reason = f"the node {parameter.node} has declared {shown(first)} in it"
            raise ConflictError(name, reason, "deleted")
        if parameter.read_only:
            raise ReadOnlyError(name, parameter.node)
        return TreeChange({name: parameter.field.check(parameter.field.default)}, [])

    def check_new(self, tree: Tree, changed: dict[str, Any]) -> None:
        """Refuse new leaves in the branch of a node that has declared others there: probably misspelt."""
        for leaf in changed:
            if leaf not in tree and leaf not in self.declared:
                self._check_branch(leaf)

    def in_the_way(self, tree: Tree, name: str) -> list[str]:
        """The leaves that have to go when `name` is declared. Raises `ConflictError` if one is declared."""
        above = tree.leaf_above(name)
        leaves = tree.beneath(name) if above is None else [above]
        for leaf in leaves:
            if leaf in self.declared:
                raise ConflictError(name, f"the node {self.declared[leaf].node} has declared {shown(leaf)}")
        return leaves

    def _check_branch(self, leaf: str) -> None:
        node = leaf
        while "/" in node:
            node = node.rpartition("/")[0]
            if node in self._branches:
                beneath = [name for name in self.declared if name.startswith(f"{node}/")]
                raise UndeclaredError(leaf, node, sorted(beneath))

    def _check_size(self, tree: Tree, changed: dict[str, Any], present: list[str]) -> None:
        """Limit what clients store. Declared leaves have limits of their own, and can always be set."""
        growth = sum(size_of(leaf, value) for leaf, value in changed.items() if leaf not in self.declared)
        growth -= sum(tree.size_at(leaf) for leaf in present if leaf not in self.declared)
        if growth > 0 and tree.size + growth > MAX_BYTES:
            raise CapacityError("bytes of parameters", MAX_BYTES)

    def _checked(self, name: str, node: str | None, leaf: str, changed: dict[str, Any]) -> Any:
        """The new value of a declared leaf at or beneath `name`."""
        parameter = self.declared[leaf]
        if leaf not in changed:
            raise ConflictError(
                name, f"that would remove {shown(leaf)}, which the node {parameter.node} needs"
            )
        if parameter.read_only and node != parameter.node:
            raise ReadOnlyError(leaf, parameter.node)
        try:
            return parameter.field.check(changed[leaf])
        except InvalidValueError as error:
            raise InvalidValueError(leaf, error.expected, error.value) from None

    def _leaves_of(self, name: str, value: Any) -> dict[str, Any]:
        """The leaves of `value` when it is set at `name`."""
        leaves: dict[str, Any] = {}
        for leaf, leaf_value in self._flattened(name, value):
            leaves[leaf] = leaf_value
            if len(leaves) > MAX_PARAMETERS:  # before all of them are made
                raise CapacityError("parameters", MAX_PARAMETERS)
        return leaves

    def _flattened(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Name and value of each leaf; the object of a declared leaf stays whole."""
        if name in self.declared or not _is_branch(name, value):
            yield name, value
            return
        for key, member in value.items():
            yield from self._flattened(f"{name}/{key}", member)


def _is_branch(name: str, value: Any) -> bool:
    """Whether `value` is an object whose members can all be names beneath `name`."""
    room = MAX_NAME - len(name) - 1
    return (
        isinstance(value, dict) and bool(value) and all(is_segment(key) and len(key) <= room for key in value)
    )
