"""Which points the far end of a replication has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from growd.store.errors import CouchRefusedError
from growd.store.replication_documents import checkpoint_of, configured_jobs, id_prefix, info_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.config import Replication
    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch, Document
    from growd.store.replication_documents import ReplicationJob

_REPLICATOR: Final = "_replicator"
_NOT_FOUND: Final = 404
_ASKED_AT_ONCE: Final = 100
"""CouchDB looks these ids up, and reads all changes for more (`changes_doc_ids_optimization_threshold`)."""

_ENDED: Final = frozenset({"completed"})
_WITHOUT_DELETIONS: Final = {"$exists": False}


class UnconfirmedError(Exception):
    """Points may not be deleted now; the text says why."""


class FarEnd:
    """The far ends of the configured replications, and of those that others have set up on this server.

    A point is confirmed if the checkpoint of the job is behind its last change. What the selector of the job
    leaves out and what the far end refused counts as confirmed, as for the job.
    """

    def __init__(self, couch: Couch, options: Replication, names: Databases, device: str) -> None:
        self._couch = couch
        self._device = device
        self._jobs = {job.local: job for job in configured_jobs(options, names, device) if job.goes_up}

    async def confirm(self, database: str, ids: Sequence[str]) -> None:
        """Return if the far end has these points. Raises `UnconfirmedError` and `CouchError`."""
        await self._refuse_others(database)
        job = self._jobs.get(database)
        if job is None:
            return
        checkpoint = await self._checkpoint(job)
        if checkpoint is None:
            raise UnconfirmedError(f"the replication of {job.name} has no checkpoint yet")
        for first in range(0, len(ids), _ASKED_AT_ONCE):
            part = ids[first : first + _ASKED_AT_ONCE]
            if await self._couch.changed(database, checkpoint, part):
                raise UnconfirmedError(f"the replication of {job.name} has not confirmed all points")

    async def _checkpoint(self, job: ReplicationJob) -> Any:
        """The sequence up to which the far end has all, None if it is unknown."""
        report = await self._couch.scheduled(job.id) or {}
        info = info_of(report)
        known = info.get("checkpointed_source_seq")
        if known is None:
            known = info.get("through_seq")  # the embedded database has no other
        return await checkpoint_of(self._couch, job, report) if known is None else known

    async def _refuse_others(self, database: str) -> None:
        """Raise `UnconfirmedError` if somebody else's replication copies deletions of `database`."""
        try:
            rows = await self._couch.all_docs(_REPLICATOR, include_docs=True)
        except CouchRefusedError as error:
            if error.status == _NOT_FOUND:
                return
            raise
        own = id_prefix(self._device)
        for row in rows:
            if not row["id"].startswith(own) and copies_deletions(row["doc"], database):
                raise UnconfirmedError(
                    f"the replication {row['id']} of {_REPLICATOR} would copy deletions of {database}; "
                    'give it the selector {"_deleted": {"$exists": false}}'
                )


def copies_deletions(document: Document, database: str) -> bool:
    """Whether a document of `_replicator` copies a database of this name with its deletions."""
    if str(document.get("_id", "")).startswith("_design/") or document.get("_replication_state") in _ENDED:
        return False
    selector = document.get("selector")
    if isinstance(selector, dict) and selector.get("_deleted") == _WITHOUT_DELETIONS:
        return False
    source = document.get("source")
    if isinstance(source, dict):
        source = source.get("url")
    name = urlsplit(source).path.rstrip("/").rpartition("/")[2] if isinstance(source, str) else ""
    return unquote(name) == database
