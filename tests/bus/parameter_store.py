"""Stores of parameters for the tests of the tree, and how its values are compared."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class MemoryStore:
    """Keeps parameters as a file would: as JSON text, each save in one step or, when told to, not at all."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.saves = 0
        self.fails = False

    async def save(self, changes: Mapping[str, Any], removed: Iterable[str]) -> None:
        texts = {name: canonical(value) for name, value in changes.items()}
        assert not changes.keys() & set(removed), "what is changed and removed at once has no meaning"
        await asyncio.sleep(0)
        if self.fails:
            raise OSError("disk full")
        for name in removed:
            self.texts.pop(name, None)
        self.texts |= texts
        self.saves += 1

    def kept(self) -> dict[str, Any]:
        """What a restart reads."""
        return {name: json.loads(text) for name, text in self.texts.items()}


class HeldStore(MemoryStore):
    """Lets a test stop it in the middle of a save."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def save(self, changes: Mapping[str, Any], removed: Iterable[str]) -> None:
        self.begun.set()
        await self.go_on.wait()
        await super().save(changes, removed)


def canonical(value: Any) -> str:
    """Equal for equal JSON only: 1, 1.0 and true differ, as they do not for `==`."""
    return json.dumps(value, sort_keys=True, allow_nan=False)
