"""What keeps states and records for one test."""

import asyncio
import json


class ShortMemory:
    """Stores states as JSON text, as the local file does. Refuses both while `fails` is set, with `error`."""

    def __init__(self):
        self.texts = {}
        self.saves = 0
        self.fails = False
        self.error = OSError("the disk is gone")

    async def state(self, key, default=None):
        self._refuse()
        return json.loads(self.texts[key]) if key in self.texts else default

    async def save_state(self, key, value):
        self._refuse()
        self.texts[key] = json.dumps(value, allow_nan=False)
        self.saves += 1

    def _refuse(self):
        if self.fails:
            raise self.error


class SlowMemory(ShortMemory):
    """Saves when `answers` is set. `written` has the texts."""

    def __init__(self):
        super().__init__()
        self.answers = asyncio.Event()
        self.answers.set()
        self.written = []

    async def save_state(self, key, value):
        await self.answers.wait()
        await super().save_state(key, value)
        self.written.append(self.texts[key])


class ShortRecords:
    """Keeps records of calibrations. Refuses everything while `fails` says why."""

    def __init__(self):
        self.records = []
        self.states = {}
        self.fails = ""

    async def saved(self, _environment):
        self._refuse()
        return self.states

    async def save(self, _environment, state):
        self._refuse()
        self.states = state

    async def keep(self, _environment, record, state):
        self._refuse()
        self.records.append(record)
        self.states = state

    def _refuse(self):
        if self.fails:
            raise OSError(self.fails)
