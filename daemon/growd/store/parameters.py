"""Parameters, saved in the local file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from growd.bus.errors import NotKeptError
from growd.store.encoding import to_json
from growd.store.errors import LocalStoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from growd.store.local import LocalStore


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
