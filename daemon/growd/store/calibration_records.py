"""Records of calibrations, as events in the outbox and as a state that outlasts a restart."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from growd.store.encoding import to_json
from growd.store.recorder import EVENT

if TYPE_CHECKING:
    import sqlite3

    from growd.store.local import LocalStore
    from growd.store.outbox import Outbox
    from growd.store.points import PointMaker

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

        def write(file: sqlite3.Connection) -> None:
            file.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (_key(environment), text))

        await self._outbox.add_with(point, write)


def _key(environment: str) -> str:
    return f"{environment}/calibrations"
