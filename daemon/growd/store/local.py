"""growd.sqlite3, the local file of the daemon: points that wait, parameters and small states.

A commit is on the disk when it returns: write-ahead log with `synchronous=FULL`, which syncs the log at each
commit (https://www.sqlite.org/pragma.html#pragma_synchronous). Each sync costs a card a block or more, so
writes that come while a commit is under way share the next one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from growd.bus.parameter_rules import MAX_BYTES, MAX_PARAMETERS
from growd.runtime.files import sync_folder
from growd.runtime.worker import Worker
from growd.store.block_file import Presence
from growd.store.damage import SMALLEST, find_damage, quarantine_file, salvage
from growd.store.encoding import point_from_json, to_json
from growd.store.errors import LocalStoreError
from growd.store.point_log import LOG_NAME
from growd.store.points import PointMaker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 1

_MAX_PENDING: Final = 1000
_TABLES: Final = ("waiting", "rejected", "parameters", "state")
_DEVICE: Final = "device"
_LOST: Final = "lost"
"""Keys of states about the file itself."""

_SCHEMA: Final = """
CREATE TABLE waiting (number INTEGER PRIMARY KEY, point TEXT NOT NULL);
CREATE TABLE rejected (
    id TEXT PRIMARY KEY, point TEXT NOT NULL, reason TEXT NOT NULL, rejected_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE parameters (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

_PARAMETERS_WITHIN: Final = """
SELECT name, value FROM parameters JOIN (
    SELECT name AS small, sum(length(CAST(name || value AS BLOB))) OVER smallest AS total FROM parameters
    WINDOW smallest AS (ORDER BY length(value), name)
) ON name = small WHERE total <= ? ORDER BY total LIMIT ?
"""


def newer_schema(path: Path) -> str:
    """A sentence if a newer growd has written the file at `path`, else "". Blocking."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _newer(path, connection)
    except sqlite3.Error:
        return ""  # the start reports the error


def _newer(path: Path, connection: sqlite3.Connection) -> str:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version <= SCHEMA_VERSION:
        return ""
    known = f"this growd knows up to {SCHEMA_VERSION}"
    return f"{path} was written by a newer growd: its schema is {version}, {known}"


class LocalStore:
    """The open local file. Make one with `await LocalStore.open(path)`, and `await close()` it.

    `notices` are sentences about damage found at the opening, and what was saved. `lost` is the reason why
    saved data may be missing, since this start or an earlier one; "" if there is none.
    """

    def __init__(self, path: Path, worker: Worker, connection: sqlite3.Connection, opened: _Opened) -> None:
        self.path = path
        self.device = opened.device
        self.lost = opened.lost
        self.notices = opened.notices
        self._presence = opened.presence
        self._worker = worker
        self._connection = connection
        self._pending: list[_Write] = []
        self._room = asyncio.Semaphore(_MAX_PENDING)
        self._arrived = asyncio.Event()
        self._closed = False
        self._committer = asyncio.create_task(self._commit_writes(), name="local store: commits")

    @classmethod
    async def open(cls, path: Path) -> LocalStore:
        """Open the file, or make it. `LocalStoreError` if it can't be used, also for a newer schema.

        A damaged file is quarantined, and its readable rows are copied into a new one.
        """
        worker = Worker("sqlite")
        try:
            connection, opened = await worker.run(_open, path)
        except BaseException:
            await worker.close()
            raise
        return cls(path, worker, connection, opened)

    async def close(self) -> None:
        """Commit the writes that wait, then close the file."""
        self._closed = True
        self._arrived.set()
        await asyncio.wait([self._committer])
        await self._worker.run(self._connection.close)
        await self._worker.close()

    async def write(
        self, function: Callable[[sqlite3.Connection], T], committed: Callable[[T], None] | None = None
    ) -> T:
        """Run `function(connection)` in the file's thread; return once its changes are on the disk.

        Writes take effect in the order of their calls. A write that raises is undone alone; the others in the
        same commit hold. Raises `LocalStoreError` for errors of SQLite (disk full, read-only).
        `committed(result)` is called on the loop after the commit, even if the caller was cancelled.
        """
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise LocalStoreError(f"{self.path} is closed")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append(_Write(function, future, committed))
        self._arrived.set()
        try:
            result: T = await future
        finally:
            self._room.release()
        return result

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run `function(connection)` in the file's thread; it must only read."""
        return await self._worker.run(_translated, self.path, function, self._connection)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run `function(*arguments)` in the file's thread, for a file beside it. Raises what it raises."""
        return await self._worker.run(function, *arguments)

    async def parameters(self) -> dict[str, Any]:
        """The saved parameters by name, the smallest first, within the limits of the bus.

        Those beyond stay in the file; a sentence in `notices` counts them.
        """
        limits = (MAX_BYTES, MAX_PARAMETERS)
        rows = await self.read(lambda file: file.execute(_PARAMETERS_WITHIN, limits).fetchall())
        count = await self.read(lambda file: file.execute("SELECT count(*) FROM parameters").fetchone()[0])
        if count > len(rows):
            reason = f"the limits are {MAX_PARAMETERS} parameters and {MAX_BYTES} bytes"
            self.notices.append(
                f"{count - len(rows)} of {count} parameters in {self.path} are not used: {reason}"
            )
        return {name: json.loads(value) for name, value in rows}

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted or moved, as the last look or commit found; writes are lost then."""
        return self._presence.is_gone

    async def look(self) -> None:
        """Check whether the file still exists; see `is_gone`."""
        await asyncio.to_thread(self._presence.look)

    async def state(self, key: str, default: Any = None) -> Any:
        """A saved state, or `default`."""
        row = await self.read(
            lambda file: file.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
        )
        return default if row is None else json.loads(row[0])

    async def save_state(self, key: str, value: Any) -> None:
        """Save a state; it is on the disk when this returns."""
        text = to_json(value)
        await self.write(lambda file: put_state(file, key, text))

    async def states(self, prefix: str) -> list[tuple[str, str]]:
        """The states whose keys have this prefix, as JSON, in the order of their keys."""
        query = "SELECT key, value FROM state WHERE substr(key, 1, ?) = ? ORDER BY key"
        return await self.read(lambda file: file.execute(query, (len(prefix), prefix)).fetchall())

    async def _commit_writes(self) -> None:
        while self._pending or not self._closed:
            await self._arrived.wait()
            self._arrived.clear()
            await self._commit()

    async def _commit(self) -> None:
        writes, self._pending = [write for write in self._pending if not write.future.done()], []
        if not writes:
            return
        functions = [write.function for write in writes]
        outcomes: list[Any]
        try:
            outcomes = await self._worker.run(
                _translated, self.path, _commit_together, self._presence, self._connection, functions
            )
        except Exception as error:  # noqa: BLE001  the callers get it
            outcomes = [error] * len(writes)
        for write, outcome in zip(writes, outcomes, strict=True):
            write.finish(outcome)


def put_state(file: sqlite3.Connection, key: str, text: str) -> None:
    """Save a state, given as JSON, within a write."""
    file.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, text))


def delete_state(file: sqlite3.Connection, key: str) -> None:
    """Delete a state within a write."""
    file.execute("DELETE FROM state WHERE key = ?", (key,))


class _Write:
    __slots__ = ("committed", "function", "future")

    def __init__(
        self,
        function: Callable[[sqlite3.Connection], Any],
        future: asyncio.Future[Any],
        committed: Callable[[Any], None] | None,
    ) -> None:
        self.function = function
        self.future = future
        self.committed = committed

    def finish(self, outcome: Any) -> None:
        """Give the outcome to the caller, or the error of `committed`, which must not end the committer."""
        if self.committed and not isinstance(outcome, Exception):
            try:
                self.committed(outcome)
            except Exception as error:  # noqa: BLE001  an error of the caller
                _log.exception("a write was committed, but its callback failed")
                outcome = error
        if self.future.done():
            return  # the caller was cancelled
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class _Opened(NamedTuple):
    """Findings at the opening; see `LocalStore`."""

    device: str
    lost: str
    notices: list[str]
    presence: Presence


def _open(path: Path) -> tuple[sqlite3.Connection, _Opened]:
    notices = []
    new = _name_of_new(path)
    if new.exists() and not path.exists():
        _translated(path, new.rename, path)
        notices.append(f"{path} was damaged; a power cut interrupted its replacement by this new one")
    damage = _translated(path, _damage_of, path)
    if damage:
        notices.append(_translated(path, _replace, path, damage))
    connection = _connect(path)
    try:
        is_new = _translated(path, _prepare, connection, path)
        device, lost = _translated(path, _known_of, connection)
        presence = _translated(path, Presence, path)
    except BaseException:
        connection.close()
        raise
    if is_new and lost:
        notices.append(f"{lost}: parameters and states start empty")
    return connection, _Opened(device, lost, notices, presence)


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None)
    except sqlite3.Error as error:
        raise LocalStoreError(f"{path} can't be opened: {error}") from error
    connection.text_factory = _text
    return connection


def _text(data: bytes) -> str:
    """Text that a bad card has changed must not block the rows behind it."""
    return data.decode(errors="replace")


def _damage_of(path: Path) -> str:
    if not path.exists():
        return ""
    if 0 < path.stat().st_size < SMALLEST:
        return "it ends within its header"  # SQLite would treat it as empty
    with closing(_connect(path)) as connection:
        return find_damage(connection)


def _replace(path: Path, damage: str) -> str:
    """Quarantine a damaged file and put a new one with its readable rows in its place; a notice about it.

    The new one is complete before that: a power cut meanwhile loses nothing.
    """
    new = _name_of_new(path)
    new.unlink(missing_ok=True)
    with closing(_connect(new)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        _create(connection)
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        saved = {table: _take_over(connection, path, table) for table in _TABLES}
        _note_loss(connection, f"{path.name} was damaged")
        connection.execute("COMMIT")
    sync_folder(path.parent)
    kept = quarantine_file(path)
    new.rename(path)  # after a power cut before this, `_open` does it
    sync_folder(path.parent)
    numbers = ", ".join(f"{number} of {table}" for table, number in saved.items())
    return f"{path} was damaged ({damage}); it is kept as {kept}, and these rows were saved: {numbers}"


def _name_of_new(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _take_over(connection: sqlite3.Connection, damaged: Path, table: str) -> int:
    """Copy the usable rows of a table of a damaged file; how many."""
    columns = len(connection.execute(f"PRAGMA table_info({table})").fetchall())
    rows = (row for row in salvage(damaged, table) if len(row) == columns and _is_usable(table, row))
    statement = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * columns)})"  # noqa: S608  our own names
    return max(0, connection.executemany(statement, rows).rowcount)


def _is_usable(table: str, row: tuple[Any, ...]) -> bool:
    """Whether the second column holds JSON: of a point, or of any value."""
    try:
        point_from_json(row[1]) if table in {"waiting", "rejected"} else json.loads(row[1])
    except (ValueError, TypeError):
        return False
    return True


def _prepare(connection: sqlite3.Connection, path: Path) -> bool:
    """Create the tables in an empty file; whether it was empty."""
    is_empty: bool = connection.execute("PRAGMA user_version").fetchone()[0] == 0
    if newer := _newer(path, connection):
        raise LocalStoreError(newer)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    if is_empty:
        connection.execute("BEGIN IMMEDIATE")
        _create(connection)
        for trace in (LOG_NAME, "couchdb"):  # an earlier run used this folder
            if path.with_name(trace).exists():
                _note_loss(connection, f"{path.name} was missing or empty beside {trace}")
        connection.execute("COMMIT")
        sync_folder(path.parent)  # or the journal of the change to WAL may come back, and undo all
    return is_empty


def _note_loss(connection: sqlite3.Connection, reason: str) -> None:
    """Saved, since a later start may be the first to need it."""
    put_state(connection, _LOST, to_json(reason))


def _known_of(connection: sqlite3.Connection) -> tuple[str, str]:
    """The id of the device, made now if the file has none, and why data may be missing."""
    rows = dict(connection.execute("SELECT key, value FROM state WHERE key IN (?, ?)", (_DEVICE, _LOST)))
    if _DEVICE not in rows:
        rows[_DEVICE] = to_json(PointMaker.new_device())
        connection.execute("INSERT INTO state VALUES (?, ?)", (_DEVICE, rows[_DEVICE]))
    return json.loads(rows[_DEVICE]), json.loads(rows.get(_LOST, '""'))


def _create(connection: sqlite3.Connection) -> None:
    for statement in filter(str.strip, _SCHEMA.split(";")):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _translated(path: Path, function: Callable[..., T], *arguments: Any) -> T:
    """Call `function`; errors of SQLite or the disk become `LocalStoreError`."""
    try:
        return function(*arguments)
    except LocalStoreError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise LocalStoreError(f"{path}: {error}") from error


def _commit_together(
    presence: Presence, connection: sqlite3.Connection, functions: list[Callable[[sqlite3.Connection], Any]]
) -> list[Any]:
    """Run all in one transaction; the result of each, or the error that undid it alone."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if len(functions) == 1:
            outcomes = [functions[0](connection)]
        else:
            outcomes = [_run_in_savepoint(presence.path, connection, function) for function in functions]
        presence.check()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it itself on some errors, such as a full disk
            connection.execute("ROLLBACK")
        raise
    return outcomes


def _run_in_savepoint(
    path: Path, connection: sqlite3.Connection, function: Callable[[sqlite3.Connection], Any]
) -> Any:
    connection.execute("SAVEPOINT one")
    try:
        result = _translated(path, function, connection)
    except Exception as error:
        if not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO one")
        result = error
    connection.execute("RELEASE one")
    return result
