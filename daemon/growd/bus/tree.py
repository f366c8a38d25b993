"""A tree of names with values at its leaves."""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def size_of(leaf: str, value: Any) -> int:
    """The bytes of a leaf's name and of its value as JSON."""
    return len((leaf + _encode(value)).encode(errors="surrogatepass"))


class Tree:
    """Leaves by their full names, `a/b/c`, sorted, so that those beneath a name are neighbours.

    `size` is that of all leaves together; see `size_of`.
    """

    def __init__(self, leaves: Mapping[str, Any] | None = None) -> None:
        self.leaves = dict(leaves or {})
        self._names = sorted(self.leaves)
        self._sizes = {leaf: size_of(leaf, value) for leaf, value in self.leaves.items()}
        self.size = sum(self._sizes.values())

    def copy(self) -> Tree:
        copied = Tree()
        copied.leaves, copied._names = self.leaves.copy(), self._names.copy()
        copied._sizes, copied.size = self._sizes.copy(), self.size
        return copied

    def size_at(self, leaf: str) -> int:
        """The size of a leaf."""
        return self._sizes[leaf]

    def __contains__(self, name: str) -> bool:
        return name in self.leaves

    def __len__(self) -> int:
        return len(self.leaves)

    def names(self) -> list[str]:
        """The names of all leaves, sorted."""
        return self._names.copy()

    def get(self, name: str) -> Any:
        """The value of a leaf, or the subtree of a branch; `KeyError` if it is neither."""
        if name in self.leaves:
            return self.leaves[name]
        beneath = self.beneath(name)
        if not beneath:
            raise KeyError(name)
        subtree: dict[str, Any] = {}
        for leaf in beneath:
            *branches, last = leaf[len(name) + 1 :].split("/")
            place = subtree
            for branch in branches:
                place = place.setdefault(branch, {})
            place[last] = self.leaves[leaf]
        return subtree

    def leaf_above(self, name: str) -> str | None:
        """The leaf on the way to `name`, if there is one; `name` can't exist then."""
        while "/" in name:
            name = name.rpartition("/")[0]
            if name in self.leaves:
                return name
        return None

    def beneath(self, name: str) -> list[str]:
        """All leaves beneath a name, if it is a branch."""
        begin = bisect_left(self._names, name + "/")
        end = bisect_left(self._names, name + chr(ord("/") + 1), begin)
        return self._names[begin:end]

    def at_or_beneath(self, name: str) -> list[str]:
        """The leaf of this name, or all leaves beneath it."""
        return [name] if name in self.leaves else self.beneath(name)

    def put(self, leaf: str, value: Any) -> None:
        """Set a leaf that has no other above or beneath it."""
        if leaf not in self.leaves:
            insort(self._names, leaf)
        self.leaves[leaf] = value
        size = size_of(leaf, value)
        self.size += size - self._sizes.get(leaf, 0)
        self._sizes[leaf] = size

    def change(self, changes: Mapping[str, Any], removed: Iterable[str]) -> None:
        """Remove leaves, then set others."""
        for leaf in removed:
            del self.leaves[leaf]
            self.size -= self._sizes.pop(leaf)
            del self._names[bisect_left(self._names, leaf)]
        for leaf, value in changes.items():
            self.put(leaf, value)
