"""Compactions that growd starts where room is short; otherwise the database starts them itself."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from growd.store.couch import Document
    from growd.store.database import Database
    from growd.store.retention.sizes import DatabaseFile, DiskUse

_POLL_S: Final = 2.0  # real seconds
_LEAST_FREED: Final = 0.2  # of the unused space of a file
_GROWN: Final = 1.1
_AGAIN_S: Final = 86_400.0  # real seconds


class Compaction:
    """Compacts files of CouchDB, or the databases of the embedded server.

    The latter has no figures of what a compaction would free: it is due once after each deletion, and once
    after the start.
    """

    def __init__(self, database: Database, poll_s: float = _POLL_S) -> None:
        self._database = database
        self._poll_s = poll_s
        self._is_new = True
        self._fruitless: dict[tuple[str, str], tuple[int, float]] = {}

    def candidates(self, use: DiskUse) -> DiskUse:
        """Without the files whose last compaction freed nothing, until they have grown, or a day is over."""
        return use._replace(files=tuple(file for file in use.files if not self._is_fruitless(file)))

    def retired(self, number: int) -> None:
        """Points were deleted."""
        if number:
            self._is_new = True
            self._fruitless.clear()

    def is_due(self, file: DatabaseFile | None) -> bool:
        """Whether a compaction may free room; `file` is the one that is worth it."""
        return self._is_new if self._database.is_embedded else file is not None

    async def run(self, file: DatabaseFile | None) -> None:
        """Compact, and return when it is over. Raises `CouchError`."""
        couch, names = self._database.couch, self._database.names
        self._is_new = False
        targets = [(file.database, file.design)] if file else [(names.points, ""), (names.events, "")]
        for database, design in targets:
            await couch.compact(database, design)
            while (info := await self._info(database, design)).get("compact_running"):  # noqa: ASYNC110
                await asyncio.sleep(self._poll_s)
            if file:
                self._remember(file, int(info.get("sizes", {}).get("file") or 0))

    def _remember(self, file: DatabaseFile, size: int) -> None:
        """Note whether a compaction has freed room. One that failed does not say so."""
        if size > file.size - _LEAST_FREED * file.unused:
            self._fruitless[file[:2]] = (size, time.monotonic() + _AGAIN_S)

    def _is_fruitless(self, file: DatabaseFile) -> bool:
        size, until = self._fruitless.get(file[:2], (0, 0.0))
        return file.size <= _GROWN * size and time.monotonic() < until

    async def _info(self, database: str, design: str) -> Document:
        if design:
            info: Document = (await self._database.couch.index_info(database, design)).get("view_index", {})
            return info
        return await self._database.couch.info(database) or {}
