"""Makes the figures of each run after its end, and adds them to its document in the database."""

from __future__ import annotations

import functools
import json
import logging
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import InvalidValueError
from growd.runtime.supervisor import TaskFault
from growd.store.errors import CouchConflictError, StoreError
from growd.store.local import delete_state
from growd.store.run_documents import DOCUMENT_KEY, FIGURES_KEY
from growd.store.work import RETRIES, DatabaseWork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.runtime.clock import Clock
    from growd.store.couch import Couch, Document
    from growd.store.local import LocalStore

    Make = Callable[[Document], Awaitable[dict[str, Any]]]

AGAIN_S: Final = (86_400.0, 14 * 86_400.0)
"""When the figures are made again, in seconds after the end: points may have come late."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class FigureKeeper:
    """Adds the member `figures` to the document of each ended run.

    `RunJournal` saves with the end of a run that its figures are due, so they are made after an outage or a
    restart, too. They are made once the database has the document of the end (`RunDocuments`) and all points
    until then (`is_delivered`, by UNIX time), and again after `AGAIN_S`. `make` gets the document and returns
    the figures as JSON; it may raise `StoreError`.
    """

    local: LocalStore
    couch: Couch
    clock: Clock
    _: KW_ONLY
    database: str
    make: Make
    is_delivered: Callable[[float], Awaitable[bool]]

    def __post_init__(self) -> None:
        fault = TaskFault(_log, "the figures of a run wait for the database", "the runs have their figures")
        self.work = DatabaseWork(self.clock, self._make_all, fault)

    async def _make_all(self) -> float | None:
        """Make all that are due; in how many seconds to look again, None for only after a call."""
        rows = await self.local.states(FIGURES_KEY)
        waits = [await self._look_at(row, text) for row, text in rows]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _look_at(self, key: str, text: str) -> float | None:
        row = json.loads(text)
        wait = float(row["due"]) - self.clock.time()
        if wait > 0:
            return wait
        run_id, ended = key.removeprefix(FIGURES_KEY), float(row["ended"])
        if await self.local.state(DOCUMENT_KEY + run_id) is not None:
            return None  # `RunDocuments` calls `look_now` once it is written
        if not await self.is_delivered(ended):
            return RETRIES.first_s
        await self._add(run_id)
        due = next((ended + after for after in AGAIN_S if ended + after > self.clock.time()), None)
        if due is None:
            await self.local.write(functools.partial(delete_state, key=key))
            return None
        await self.local.save_state(key, {"ended": ended, "due": due})
        return due - self.clock.time()

    async def _add(self, run_id: str) -> None:
        document = await self.couch.get(self.database, run_id)
        if document is None:
            _log.warning("the figures of the run %s are not made: its document was deleted", run_id)
            return
        try:
            figures = await self.make(document)
        except StoreError:
            raise
        except InvalidValueError as error:
            _log.warning("the figures of the run %s are not made: %s", run_id, error)
            return
        except Exception:  # noqa: BLE001  one run must not stop the figures of the others
            _log.exception("could not make the figures of the run %s", run_id)
            return
        present = document.get("figures")
        if present == figures or _is_less_exact(figures, present):
            return
        if await self.couch.put(self.database, document | {"figures": figures}) is None:
            raise CouchConflictError(run_id)


def _is_less_exact(figures: dict[str, Any], present: Any) -> bool:
    """Whether points of the run have been deleted since the present figures were made."""
    known = present.get("rolled_up_until") if isinstance(present, dict) else None
    return isinstance(present, dict) and (figures.get("rolled_up_until") or 0.0) > (known or 0.0)
