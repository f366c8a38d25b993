"""What is told of each run of a recipe for good: a document, kept here until the database has it."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from growd.store.errors import CouchError, CouchRefusedError, StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable

    from growd.runtime.clock import Clock
    from growd.store.couch import Couch
    from growd.store.local import LocalStore

DOCUMENT_KEY: Final = "document of a run/"
"""Begins the name of each row with a document that waits, in the table of small things to remember. No
environment has such an id."""

FIRST_RETRY_S: Final = 5.0
LONGEST_RETRY_S: Final = 600.0
_log = logging.getLogger(__name__)


class RunDocuments:
    """Brings the `recipe_run` documents that `RunJournal` left in the local file into the database.

    A run has one document, written at its start and again at its end. What the database has is what was kept
    last: another revision of it there is followed, and its content replaced.
    """

    def __init__(
        self,
        local: LocalStore,
        couch: Couch,
        clock: Clock,
        *,
        database: str,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self._local = local
        self._couch = couch
        self._clock = clock
        self._database = database
        self._prepare = prepare
        self._wake = asyncio.Event()
        self._wake.set()  # some may wait since the last time

    def look_now(self) -> None:
        """There is a new one, or the database is there again."""
        self._wake.set()

    async def run(self) -> None:
        """Bring what waits, each time that something does, until cancelled."""
        delay, is_logged = FIRST_RETRY_S, False
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._bring_all()
            except StoreError as error:
                if not is_logged:
                    _log.warning("the record of a recipe's run waits for the database: %s", error)
                is_logged = True
                retry = self._clock.call_later(delay, self._wake.set)
                await self._wake.wait()
                retry.cancel()
                delay = min(2 * delay, LONGEST_RETRY_S)
            else:
                delay, is_logged = FIRST_RETRY_S, False

    async def _bring_all(self) -> None:
        waiting = await self._local.read(_waiting)
        if waiting:
            await self._prepare()
        refusal: CouchRefusedError | None = None
        for key, text in waiting:
            try:
                await self._bring(json.loads(text))
            except CouchRefusedError as error:  # it stays; those behind it need not
                refusal = error
            else:
                await self._local.write(functools.partial(_forget, key=key, text=text))
        if refusal is not None:
            raise refusal

    async def _bring(self, document: dict[str, Any]) -> None:
        """Raises `CouchError`."""
        present = await self._couch.get(self._database, document["_id"])
        revision = {"_rev": present["_rev"]} if present else {}
        if (
            present != document | revision
            and await self._couch.put(self._database, document | revision) is None
        ):
            raise CouchConflictError(document["_id"])


class CouchConflictError(CouchError, RuntimeError):
    """Somebody else wrote the document at the same moment."""

    def __init__(self, document_id: str) -> None:
        super().__init__(f"{document_id} was changed by somebody else meanwhile")


def _waiting(file: sqlite3.Connection) -> list[tuple[str, str]]:
    query = "SELECT key, value FROM state WHERE substr(key, 1, ?) = ? ORDER BY key"
    return file.execute(query, (len(DOCUMENT_KEY), DOCUMENT_KEY)).fetchall()


def _forget(file: sqlite3.Connection, *, key: str, text: str) -> None:
    """Unless it has changed since it was read."""
    file.execute("DELETE FROM state WHERE key = ? AND value = ?", (key, text))
