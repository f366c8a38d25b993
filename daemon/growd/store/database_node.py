"""The node `database` on the bus: kind and address of the database, and whether it answers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import counted
from growd.runtime.sentence import Sentence, plain, problem
from growd.store.errors import CouchError, CouchRefusedError, CouchUnavailableError
from growd.store.index_builds import IndexBuild, index_builds

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.store.database import Database


FRESH_S: Final = 5.0
"""Seconds for which an answer of the database is used again."""

_PATIENCE_S: Final = 2.0  # for its answer; the client of growd waits for it


class DatabaseStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The database server: "embedded" or "Apache CouchDB", and its address without a login.

    `reason` says why it is not reachable. Unknown values are None, and left out of JSON. `indexes` are those
    that are being built.
    """

    kind: str
    reachable: bool
    address: str | None = None
    version: str | None = None
    reason: str | None = None
    indexes: tuple[IndexBuild, ...] = ()


class DatabaseNode:
    """The node `database` with a `DatabaseStatus`, which is gathered on request."""

    def __init__(self, bus: Bus, database: Database) -> None:
        self._database = database
        self._version: str | None = None  # the last known one
        self._reason: str | None = "not asked yet"
        self._indexes: tuple[IndexBuild, ...] = ()
        self._asked_at: float | None = None
        self._lock = asyncio.Lock()
        self.node = bus.node("database")
        self.node.describe("database", self._information, prepare=self.look)
        self.node.describe("problems", self._problems)

    async def look(self) -> None:
        """Ask the database for its version, if the last answer is older than `FRESH_S`."""
        async with self._lock:
            if self._asked_at is not None and time.monotonic() - self._asked_at < FRESH_S:
                return
            self._reason = await self._ask()
            self._indexes = await self._building() if self._reason is None else ()
            self._asked_at = time.monotonic()

    async def _ask(self) -> str | None:
        """Why it can't be reached, None if it can."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await self._database.stranger.server()
        except TimeoutError:
            return f"it has not answered within {_PATIENCE_S:g} s"
        except CouchUnavailableError as error:
            return str(error)
        except CouchRefusedError:  # it answers only with a login
            return None
        version = answer.get("version")
        self._version = version if isinstance(version, str) else None
        return None

    def _problems(self) -> list[dict[str, Any]]:
        """Hangs and crashes, shown until growd ends, since a request may have caused them on purpose."""
        embedded = self._database.embedded
        happened = {"stopped answering": embedded.hangs, "crashed": embedded.crashes}
        found = []
        for what, number in happened.items():
            times = counted(number, "time")
            text = f"embedded database {what} and was restarted, {times} since growd started"
            said = Sentence(text, "database_restarted", what=what, times=times)
            found += [problem(said, name=what, is_note=True)] if number else []
        return found  # as notes: while it does not answer, that is the warning

    async def _building(self) -> tuple[IndexBuild, ...]:
        # the embedded one does not answer while it builds an index; CouchDB counts wrong logins
        if self._database.is_embedded or not self._database.prepared.is_set():
            return ()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                builds = await index_builds(self._database.couch)
                own = self._database.names.names_by_folder().values()
                return tuple(build for build in builds if build.database in own)
        except (TimeoutError, CouchError):
            return ()

    def _information(self) -> dict[str, Any]:
        status: dict[str, Any] = plain(
            DatabaseStatus(
                "embedded" if self._database.is_embedded else "Apache CouchDB",
                self._reason is None,
                self._database.address,
                self._version,
                self._reason,
                self._indexes,
            )
        )
        return status
