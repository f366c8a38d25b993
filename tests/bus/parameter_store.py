"""Stores of parameters for the tests, and the comparison of values."""

import asyncio
import json


class MemoryStore:
    """Stores parameters as JSON text, as a file would; `fails` makes it refuse."""

    def __init__(self):
        self.texts = {}
        self.saves = 0
        self.fails = False

    async def save(self, changes, removed):
        texts = {name: canonical(value) for name, value in changes.items()}
        assert not changes.keys() & set(removed), "a leaf is changed and removed at once"
        await asyncio.sleep(0)
        if self.fails:
            raise OSError("disk full")
        for name in removed:
            self.texts.pop(name, None)
        self.texts |= texts
        self.saves += 1

    def kept(self):
        """The parameters after a restart."""
        return {name: json.loads(text) for name, text in self.texts.items()}


class HeldStore(MemoryStore):
    """A test can hold it during a save."""

    def __init__(self):
        super().__init__()
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def save(self, changes, removed):
        self.begun.set()
        await self.go_on.wait()
        await super().save(changes, removed)


def canonical(value):
    """A text that is equal for equal JSON only: 1, 1.0 and true differ, unlike with `==`."""
    return json.dumps(value, sort_keys=True, allow_nan=False)
