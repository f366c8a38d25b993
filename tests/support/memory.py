"""What keeps states and records for one test."""

from __future__ import annotations

import asyncio
import json
from typing import Any


class ShortMemory:
    """Stores states as JSON text, as the local file does. Refuses both while `fails` is set, with `error`."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.saves = 0
        self.fails = False
        self.error: Exception = OSError("the disk is gone")

    async def state(self, key: str, default: Any = None) -> Any:
        self._refuse()
        return json.loads(self.texts[key]) if key in self.texts else default

    async def save_state(self, key: str, value: Any) -> None:
        self._refuse()
        self.texts[key] = json.dumps(value, allow_nan=False)
        self.saves += 1

    def _refuse(self) -> None:
        if self.fails:
            raise self.error


class SlowMemory(ShortMemory):
    """Saves when `answers` is set. `written` has the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.answers.set()
        self.written: list[str] = []

    async def save_state(self, key: str, value: Any) -> None:
        await self.answers.wait()
        await super().save_state(key, value)
        self.written.append(self.texts[key])


class ShortRecords:
    """Keeps records of calibrations. Refuses everything while `fails` says why."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.states: dict[str, Any] = {}
        self.fails = ""

    async def saved(self, _environment: str) -> dict[str, Any]:
        self._refuse()
        return self.states

    async def save(self, _environment: str, state: dict[str, Any]) -> None:
        self._refuse()
        self.states = state

    async def keep(self, _environment: str, record: Any, state: dict[str, Any]) -> None:
        self._refuse()
        self.records.append(record)
        self.states = state

    def _refuse(self) -> None:
        if self.fails:
            raise OSError(self.fails)
