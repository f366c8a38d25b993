"""What parameters, interlocks and calibrations keep over a restart.

The newer of the file of the interlocks and growd.sqlite3 counts, so that damage to one of them, or a lost
write-ahead log, does not bring an old state back. If the newest state can't be determined, it counts as lost.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from growd.bus.errors import NotKeptError
from growd.runtime.files import read_regular, write_atomically
from growd.store.encoding import to_json
from growd.store.errors import LocalStoreError
from growd.store.local import put_state
from growd.store.recorder import EVENT

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from growd.store.local import LocalStore
    from growd.store.outbox import Outbox
    from growd.store.points import PointMaker

FILE_NAME: Final = "interlocks.json"
_MOST_BYTES: Final = 1_000_000  # far more than the file ever has

_Kept = tuple[int, Any]
"""How many times a state was saved, and the state."""


class InterlockMemory:
    """The `Memory` of interlocks (`growd.control.interlocks`) on the local store."""

    def __init__(self, local: LocalStore) -> None:
        self._local = local
        self._path = local.path.with_name(FILE_NAME)
        self._reading = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._found: dict[str, _Kept] | None = None  # in the file at the start; None: unusable
        self._damage = ""
        self._is_read = False
        self._states: dict[str, _Kept] = {}
        self._numbers: dict[str, int] = {}  # the highest number of each state, also if it is lost

    async def state(self, key: str, default: Any = None) -> Any:
        """The saved state, or `default` if there was never one.

        Raises ValueError with the reason if it is lost, OSError or `LocalStoreError` if it can't be read.
        """
        async with self._reading:
            if not self._is_read:
                self._found, self._damage = await self._local.call(_read, self._path)
                self._states |= self._found or {}
                self._is_read = True
        row = await self._local.state(key)
        in_file = None if self._found is None else self._found.get(key)
        in_store = None if row is None else _of_row(row)
        self._numbers[key] = max((_number(each) for each in (in_file, in_store) if each), default=0)
        if in_file is None and (reason := self._why_lost(in_store)):
            raise ValueError(reason)
        newest = max((each for each in (in_file, in_store) if each is not None), key=_number, default=None)
        if newest is None:
            return default
        self._states[key] = newest
        return newest[1]

    async def save_state(self, key: str, value: Any) -> None:
        """Save a state in both places; it is on the disk when this returns. Raises as `state`."""
        async with self._writing:
            number = self._numbers.get(key, 0) + 1
            states = {**self._states, key: (number, value)}
            await self._local.call(write_atomically, self._path, _encoded(states))
            self._states, self._numbers[key] = states, number
            await self._local.save_state(key, {"number": number, "value": value})

    def _why_lost(self, in_store: _Kept | None) -> str:
        """Why the file may have had a state, or a newer one than the store; "" if it had none."""
        file = f"the saved state of the interlocks ({self._path.name})"
        if self._damage:
            return f"{file} {self._damage}"
        if in_store is not None:
            return f"{file} is missing" if _number(in_store) else ""
        return self._local.lost if self._found is None else ""


def _number(kept: _Kept) -> int:
    return kept[0]


def _of_row(row: Any) -> _Kept:
    """A state in growd.sqlite3; without a number it is from a growd that had no file."""
    if isinstance(row, dict) and isinstance(number := row.get("number"), int) and "value" in row:
        return number, row["value"]
    return 0, row


def _encoded(states: dict[str, _Kept]) -> bytes:
    text = to_json(states).encode()
    return b"%08x %s\n" % (crc32(text), text)


def _read(path: Path) -> tuple[dict[str, _Kept] | None, str]:
    """The states in the file, None without a sound file; and its damage. Raises OSError."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return None, "is not a regular file"
    content = read_regular(path, _MOST_BYTES)
    if content is None:
        return None, ""
    check, _, text = content.rstrip(b"\n").partition(b" ")
    if check != b"%08x" % crc32(text):
        return None, "is damaged"
    return {key: (number, value) for key, (number, value) in json.loads(text).items()}, ""


class ParameterKeeper:
    """The `ParameterStore` of the bus: parameters are on the disk when `save` returns."""

    def __init__(self, local: LocalStore) -> None:
        self._local = local

    async def save(self, changes: Mapping[str, Any], removed: Iterable[str]) -> None:
        """Save and delete in one commit. Raises `NotKeptError`; then nothing has changed."""

        def write(file: sqlite3.Connection) -> None:
            file.executemany("DELETE FROM parameters WHERE name = ?", ((name,) for name in removed))
            rows = ((name, to_json(value)) for name, value in changes.items())  # here, off the loop
            file.executemany("INSERT OR REPLACE INTO parameters VALUES (?, ?)", rows)

        try:
            await self._local.write(write)
        except LocalStoreError as error:
            raise NotKeptError(f"the parameter could not be saved: {error}") from error


CALIBRATION: Final = "calibration"
"""The kind of the events."""


class CalibrationRecords:
    """Keeps records in the outbox and the local store, in one transaction."""

    def __init__(self, local: LocalStore, outbox: Outbox, maker: PointMaker) -> None:
        self._local = local
        self._outbox = outbox
        self._maker = maker

    async def saved(self, environment: str) -> dict[str, Any]:
        """The saved state. Raises `LocalStoreError`."""
        state: dict[str, Any] = await self._local.state(_key(environment), {})
        return state

    async def save(self, environment: str, state: dict[str, Any]) -> None:
        """Save the state. Raises `LocalStoreError`."""
        await self._local.save_state(_key(environment), state)

    async def keep(self, environment: str, record: Any, state: dict[str, Any]) -> None:
        """An event with the fields of the record as `details`, and the state. Raises `LocalStoreError`.

        The record is a dataclass with `device`, `by` and `time`; its text says it in words.
        """
        fields = {name: value for name, value in asdict(record).items() if name not in ("by", "time")}
        point = self._maker.make(
            environment,
            CALIBRATION,
            f"{record.device}: {record}",
            record.time,
            is_manual=True,
            category=EVENT,
            by=record.by,
            details=fields,
        )
        text = to_json(state)
        await self._outbox.add_with(point, lambda file: put_state(file, _key(environment), text))


def _key(environment: str) -> str:
    return f"{environment}/calibrations"
