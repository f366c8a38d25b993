"""Compactions that growd starts where room is short; otherwise the database starts them itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.store.database import Database
    from growd.store.retention.sizes import DatabaseFile

_POLL_S: Final = 2.0  # real seconds


class Compaction:
    """Compacts files of CouchDB, or the databases of the embedded server.

    The latter has no figures of what a compaction would free: it is due once after each deletion, and once
    after the start.
    """

    def __init__(self, database: Database, poll_s: float = _POLL_S) -> None:
        self._database = database
        self._poll_s = poll_s
        self._is_new = True

    def retired(self, number: int) -> None:
        """Points were deleted."""
        self._is_new = self._is_new or number > 0

    def is_due(self, file: DatabaseFile | None) -> bool:
        """Whether a compaction may free room; `file` is the one that is worth it."""
        return self._is_new if self._database.is_embedded else file is not None

    async def run(self, file: DatabaseFile | None, beat: Callable[[], Awaitable[None]]) -> None:
        """Compact, and return when it is over. Raises `CouchError`."""
        couch, names = self._database.couch, self._database.names
        self._is_new = False
        targets = [(file.database, file.design)] if file else [(names.points, ""), (names.events, "")]
        for database, design in targets:
            await couch.compact(database, design)
            while await self._is_running(database, design):
                await beat()
                await asyncio.sleep(self._poll_s)

    async def _is_running(self, database: str, design: str) -> bool:
        if design:
            info = (await self._database.couch.index_info(database, design)).get("view_index", {})
        else:
            info = await self._database.couch.info(database) or {}
        return bool(info.get("compact_running"))
