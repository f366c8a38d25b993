"""Which recipe runs, kept in the local file together with the points of its start and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from growd.store.encoding import to_json

if TYPE_CHECKING:
    import sqlite3

    from growd.store.local import LocalStore
    from growd.store.outbox import Outbox
    from growd.store.points import PointMaker


class RunJournal:
    """The recipe runner's journal of one environment.

    Two rows: the whole run, with its recipe, written at the start; and how far it has come, written each
    minute. The recipe may be large, and a card is spared what does not change.
    """

    def __init__(self, local: LocalStore, outbox: Outbox, maker: PointMaker, environment: str) -> None:
        self._local = local
        self._outbox = outbox
        self._maker = maker
        self._environment = environment
        self._run_key = f"{environment}/recipe_run"
        self._progress_key = f"{environment}/recipe_progress"

    async def load(self) -> dict[str, Any] | None:
        """The run that was kept last, as far as it is known to have come; None if there is none."""
        run: dict[str, Any] | None = await self._local.state(self._run_key)
        progress = await self._local.state(self._progress_key)
        return {**run, **progress} if run and progress else run

    async def commit(self, run: dict[str, Any] | None, variable: str, value: str, time: float) -> None:
        """Keep the run (None clears it) and add its point, in one durable transaction. Raises OSError."""
        point = self._maker.make(self._environment, variable, value, time, is_desired=True)

        def write(file: sqlite3.Connection) -> None:
            file.execute("DELETE FROM state WHERE key = ?", (self._progress_key,))
            _put(file, self._run_key, run)

        await self._outbox.add_with(point, write)

    async def progress(self, run: dict[str, Any]) -> None:
        """Keep how far the run has come. Raises OSError."""
        come = {name: run[name] for name in ("elapsed", "seen")}
        await self._local.write(lambda file: _put(file, self._progress_key, come))


def _put(file: sqlite3.Connection, key: str, value: Any) -> None:
    file.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, to_json(value)))
