"""How many changes of its source a replication has still to bring over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from growd.store.couch import Couch, Document
    from growd.store.replication_plan import Job

COUNTED: Final = 1_000
"""Up to so many changes are counted exactly. Of more, those that the selector keeps out are counted too."""


class Lag:
    """Measures one job's lag. `here` is the server that runs it, `source` the one that it reads."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.through: Any = None  # how far the job has come, as a sequence of its source
        self._nothing_until: Any = None  # and to where nothing follows that concerns it

    async def measure(self, here: Couch, source: Couch, report: Document) -> int:
        """The lag, for a job of which `_scheduler/docs` says `report`. Raises `CouchError`."""
        through = _through(report)
        if through is None:
            through = self.through if self.through is not None else await self._checkpoint(here, report)
        if through != self.through:
            self.through, self._nothing_until = through, None
        return await self._count(source, self.through if self._nothing_until is None else self._nothing_until)

    async def _count(self, source: Couch, since: Any) -> int:
        page = await source.changes(self._job.source, since, 1)
        # Without a selector, for a count of a year's points would read them all.
        total = len(page["results"]) + int(page.get("pending") or 0)
        if total > COUNTED:
            return total
        page = await source.changes(self._job.source, since, COUNTED, self._job.selector)
        if not page["results"]:
            self._nothing_until = page["last_seq"]
        return len(page["results"])

    async def _checkpoint(self, here: Couch, report: Document) -> Any:
        """The sequence in its checkpoint, stored at both ends under the replication's id."""
        name = str(report.get("id") or "").partition("+")[0]
        checkpoint = (await here.get(self._job.here, f"_local/{name}") if name else None) or {}
        of_embedded = checkpoint.get("last_seq", 0)
        return checkpoint.get("source_last_seq", of_embedded)


def _through(report: Document) -> Any:
    info = report.get("info")
    if not isinstance(info, dict):
        return None
    through = info.get("through_seq")
    return info.get("checkpointed_source_seq") if through is None else through
