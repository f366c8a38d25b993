"""A memory of interlocks for one test."""

from __future__ import annotations

import json
from typing import Any


class ShortMemory:
    """Stores states as JSON text, as the local file does. Refuses both directions while `fails` is set."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.saves = 0
        self.fails = False

    async def state(self, key: str, default: Any = None) -> Any:
        self._refuse()
        return json.loads(self.texts[key]) if key in self.texts else default

    async def save_state(self, key: str, value: Any) -> None:
        self._refuse()
        self.texts[key] = json.dumps(value, allow_nan=False)
        self.saves += 1

    def _refuse(self) -> None:
        if self.fails:
            raise OSError("the disk is gone")
