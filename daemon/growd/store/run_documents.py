"""The permanent record of each recipe run, a `recipe_run` document, until the database has it."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from growd.runtime.supervisor import TaskFault
from growd.store.errors import CouchConflictError, CouchError, CouchRefusedError
from growd.store.work import DatabaseWork

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Mapping

    from growd.runtime.clock import Clock
    from growd.store.couch import Couch
    from growd.store.local import LocalStore

DOCUMENT_KEY: Final = "document of a run/"
"""Prefix of the states that hold waiting documents. No environment has such an id."""

FIGURES_KEY: Final = "figures of a run/"
"""Prefix of the states that say when the figures of an ended run are made."""

SETTLED_S: Final = 10.0
"""How long after the end of a run its last points are on the disk."""

CHECK_S: Final = 600.0
"""How often it is checked that the database has the documents of the runs that go on."""

SHORT_DIGITS: Final = 6
"""Of the random part of an id, in its short form. Among a thousand runs two of them agree with 3 %."""

LEAST_DIGITS: Final = 4
"""Of the random part of an id, for a text that stands for the id."""

_log = logging.getLogger(__name__)


def short_id(run_id: str) -> str:
    """The short form of an id, which commands accept; see `PointMaker` for ids."""
    return run_id.rpartition("-")[2][:SHORT_DIGITS]


def stands_for(text: str, run_id: str) -> bool:
    """Whether a text is the id of a run, or the first digits of its random part."""
    digits = run_id.rpartition("-")[2]
    return text == run_id or (len(text) >= LEAST_DIGITS and digits.startswith(text.lower()))


class RunDocuments:
    """Writes the `recipe_run` documents that `RunJournal` saved into the database.

    A run has one document, written at its start, when another recipe takes over, at its end, and again if the
    database has lost it: `going` has the ids of the runs that go on, and saves their documents again. The
    last saved version replaces any revision in the database.
    """

    def __init__(
        self,
        local: LocalStore,
        couch: Couch,
        clock: Clock,
        *,
        database: str,
        prepare: Callable[[], Awaitable[None]],
        going: Callable[[], Mapping[str, Callable[[], Awaitable[None]]]] = dict,
    ) -> None:
        self._local = local
        self._couch = couch
        self._database = database
        self._prepare = prepare
        self._going = going
        self.written: Callable[[], None] = lambda: None
        """Called when the database has them all."""
        fault = TaskFault(
            _log, "the record of a recipe run waits for the database", "the database has the recipe runs"
        )
        self.work = DatabaseWork(clock, self._write_all, fault)

    async def _write_all(self) -> float:
        waiting = await self._local.states(DOCUMENT_KEY)
        if waiting:
            await self._prepare()
        refusal: CouchRefusedError | None = None
        for key, text in waiting:
            try:
                await self._write(json.loads(text))
            except CouchRefusedError as error:  # it waits; the others are still written
                refusal = error
            else:
                await self._local.write(functools.partial(_delete, key=key, text=text))
        if refusal is not None:
            raise refusal
        self.written()
        if going := self._going():
            with contextlib.suppress(CouchError):  # nothing waits for it
                await self._prepare()
                for row in await self._couch.rows_of(self._database, [*going]):
                    if "error" in row:
                        await going[row["key"]]()
        return CHECK_S

    async def _write(self, document: dict[str, Any]) -> None:
        """Raises `CouchError`."""
        present = await self._couch.get(self._database, document["_id"])
        revision = {"_rev": present["_rev"]} if present else {}
        if (
            present != document | revision
            and await self._couch.put(self._database, document | revision) is None
        ):
            raise CouchConflictError(document["_id"])


def _delete(file: sqlite3.Connection, *, key: str, text: str) -> None:
    """Delete it, unless it has changed since it was read."""
    file.execute("DELETE FROM state WHERE key = ? AND value = ?", (key, text))
