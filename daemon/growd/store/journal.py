"""The run of a recipe and the set points of clients, saved in the local file."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from growd.store.encoding import to_json
from growd.store.local import delete_state, put_state
from growd.store.run_documents import DOCUMENT_KEY, FIGURES_KEY, SETTLED_S

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from growd.store.local import LocalStore
    from growd.store.outbox import Outbox
    from growd.store.points import PointMaker


ROW_S: Final = 3600.0
"""Monotonic seconds between rows with the place, which a damaged log costs at most."""

_STEADY: Final = frozenset({"recipe", "ordered", "ran", "about"})
"""Members of a run that change only at a start and a revision."""

_PLACE: Final = ("elapsed", "seen", "lasted", "monotonic")
_SERIAL: Final = "serial"


class RunJournal:
    """The journal of the recipe runner of one environment.

    It has two rows: the whole run with its recipe, written at the start and when another recipe takes over;
    and the run without the recipe, written each hour and when more than the time has changed. The recipe may
    be large. In between, the place goes into the log of points as a note, which costs next to nothing. A note
    belongs to the row with the same `serial`, and holds while that row is the newest.

    The row `recipe_order` has an order that waits for its time.

    `written` is called when a document of a run waits for the database (see `RunDocuments`).
    """

    def __init__(
        self,
        local: LocalStore,
        outbox: Outbox,
        maker: PointMaker,
        environment: str,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        self._local = local
        self._outbox = outbox
        self._maker = maker
        self._environment = environment
        self._written = written
        self._run_key = f"{environment}/recipe_run"
        self._progress_key = f"{environment}/recipe_progress"
        self._order_key = f"{environment}/recipe_order"
        self._row: dict[str, Any] = {}  # the last one that was written since the start

    async def load(self) -> dict[str, Any] | None:
        """The last saved run, with its latest saved progress; None if there is none."""
        run: dict[str, Any] | None = await self._local.state(self._run_key)
        progress = await self._local.state(self._progress_key)
        if not run or not progress:
            return run
        serial, note = progress.pop(_SERIAL, None), self._outbox.noted(self._environment)
        if serial and note and note[0] == serial and len(note) == len(_PLACE) + 1:
            progress |= zip(_PLACE, note[1:], strict=True)
        return {**run, **progress}

    def new_run_id(self, time: float) -> str:
        """An id for a run that starts at this UNIX time, unique over all devices."""
        return self._maker.new_id(time)

    async def commit(
        self, run: dict[str, Any] | None, variable: str, value: str, time: float, document: dict[str, Any]
    ) -> None:
        """Save the run (None deletes it), its point and its document, in one durable transaction.

        An order is deleted. Raises OSError.
        """
        why = {"reason": document["end_reason"]} if document.get("end_reason") else None
        point = self._maker.make(self._environment, variable, value, time, is_desired=True, details=why)

        def write(file: sqlite3.Connection) -> None:
            delete_state(file, self._order_key)
            self._put_run(file, run, document)

        self._row = {}
        await self._outbox.add_with(point, write)
        self._written()

    async def revise(self, run: dict[str, Any], document: dict[str, Any]) -> None:
        """Save a run with another recipe and its document, in one durable transaction. Raises OSError."""
        self._row = {}
        await self._local.write(lambda file: self._put_run(file, run, document))
        self._written()

    async def load_order(self) -> dict[str, Any] | None:
        """The order that waits, None if there is none."""
        order: dict[str, Any] | None = await self._local.state(self._order_key)
        return order

    async def save_order(self, order: dict[str, Any] | None) -> None:
        """Save an order; None deletes it. It is on the disk when this returns. Raises OSError."""
        await self._local.save_state(self._order_key, order)

    async def progress(self, run: dict[str, Any]) -> None:
        """Save the run without its recipe. Raises OSError.

        It is on the disk when this returns. If only the time has changed, the place becomes a note, and is
        written with the next points.
        """
        come = {name: value for name, value in run.items() if name not in _STEADY}
        if self._has_only_time_changed(come):
            place = [self._row[_SERIAL], *(come[name] for name in _PLACE)]
            if self._outbox.note(self._environment, place):
                return
        row = come | {_SERIAL: secrets.token_hex(4)}
        await self._local.write(lambda file: put_state(file, self._progress_key, to_json(row)))
        self._row = row

    def _put_run(
        self, file: sqlite3.Connection, run: dict[str, Any] | None, document: dict[str, Any]
    ) -> None:
        delete_state(file, self._progress_key)
        put_state(file, self._run_key, to_json(run))
        put_state(file, DOCUMENT_KEY + document["_id"], to_json(document))
        if (ended := document.get("ended")) is not None:
            due = to_json({"ended": ended, "due": ended + SETTLED_S})
            put_state(file, FIGURES_KEY + document["_id"], due)

    def _has_only_time_changed(self, come: dict[str, Any]) -> bool:
        row = self._row
        rest = {name: value for name, value in come.items() if name not in _PLACE}
        is_same = rest == {name: row[name] for name in row if name not in {*_PLACE, _SERIAL}}
        return is_same and row.keys() >= {*_PLACE} and come["monotonic"] - row["monotonic"] < ROW_S


class SetPointKeeper:
    """The set points of clients in one environment, in one row of the local file. Raises OSError."""

    def __init__(self, local: LocalStore, environment: str) -> None:
        self._local = local
        self._key = f"{environment}/set_points"

    async def load(self) -> dict[str, Any]:
        """The saved set points, by variable."""
        kept = await self._local.state(self._key, {})
        return kept if isinstance(kept, dict) else {}

    async def save(self, set_points: dict[str, Any]) -> None:
        """Save these in place of the others; they are on the disk when this returns."""
        await self._local.save_state(self._key, set_points)
