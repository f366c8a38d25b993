"""The documents in the database `_replicator` that a configuration asks for.

https://docs.couchdb.org/en/3.5.x/replication/replicator.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from growd.config import Replication
    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch, Document

_WRITTEN_BY_COUCHDB: Final = ("_rev", "owner", "_replication_")  # beginnings of member names
_TIMEOUT_MS: Final = 30_000  # CouchDB's default

# Without design documents, which would run on the other server, and without deletions: a device that makes
# room on its card must not delete points from the collection.
_POINTS: Final[Document] = {"environment": {"$exists": True}, "_deleted": {"$exists": False}}
# A document without its picture waits for it: the other server may not let it be changed later.
_WITH_PICTURE: Final[Document] = {"_attachments": {"$exists": True}}
# With deletions, which have no member but the id, and without design documents.
_RECIPES: Final[Document] = {"_id": {"$regex": "^[^_]"}}

# Of the replicator, for each job: the defaults, 4 and 20, are for one job between servers. A collection has
# jobs of thousands of devices.
_SMALL: Final = {"worker_processes": 1, "http_connections": 2}


class ReplicationServer(msgspec.Struct, frozen=True):
    """A server as an end of a replication. CouchDB 3 also needs the address of its own databases.

    The embedded server takes its own databases by name (an empty `url`): its port changes with each start.
    """

    url: str
    credentials: tuple[str, str] | None

    def end(self, database: str) -> Document | str:
        """The `source` or `target` that is this database."""
        if not self.url:
            return database
        end: Document = {"url": f"{self.url.rstrip('/')}/{quote(database, safe='')}"}
        if self.credentials is not None:
            user, password = self.credentials
            end["auth"] = {"basic": {"username": user, "password": password}}
        return end


class ReplicationJob(msgspec.Struct, frozen=True):
    """One replication: from the database `local` to `remote` (`goes_up`), or back."""

    name: str
    device: str
    goes_up: bool
    local: str
    remote: str
    selector: Document

    @property
    def id(self) -> str:
        """The `_id` of its document."""
        return f"{id_prefix(self.device)}{self.name}"

    @property
    def source(self) -> str:
        """The name of the database that it reads."""
        return self.local if self.goes_up else self.remote

    def document(self, local: ReplicationServer, remote: ReplicationServer) -> Document:
        """Its document. The member `growd` marks it as a document of this device."""
        ends = local.end(self.local), remote.end(self.remote)
        source, target = ends if self.goes_up else reversed(ends)
        return {
            "_id": self.id,
            "source": source,
            "target": target,
            "continuous": True,
            "selector": self.selector,
            "connection_timeout": _TIMEOUT_MS,
            **_SMALL,
            "growd": {"device": self.device},
        }


def id_prefix(device: str) -> str:
    """The beginning of the ids of this device's documents."""
    return f"growd-{device}-"


def configured_jobs(options: Replication, names: Databases, device: str) -> list[ReplicationJob]:
    """The replications that the configuration asks for; none without `url`."""
    if not options.url:
        return []
    series: tuple[tuple[str, str, str, str, Document], ...] = (
        ("points", options.points, names.points, "environmental_data_point", {}),
        ("events", options.events, names.events, "environmental_event", {}),
        ("photos", options.photos, names.photos, "environmental_photo", _WITH_PICTURE),
    )
    jobs = [
        ReplicationJob(
            name,
            device,
            goes_up=True,
            local=local,
            remote=options.prefix + remote,
            selector=_of_environments(options.environments) | further,
        )
        for name, direction, local, remote, further in series
        if direction == "up"
    ]
    remote = f"{options.prefix}recipes"
    directions = {"off": (), "down": (False,), "both": (False, True)}[options.recipes]
    for goes_up in directions:
        name = "recipes_up" if goes_up else "recipes_down"
        selector = _RECIPES if goes_up else _recipes_for(device, options.group)
        jobs.append(ReplicationJob(name, device, goes_up, names.recipes, remote, selector))
    return jobs


def info_of(report: Document) -> Document:
    """The details in a report of `_scheduler/docs`."""
    info = report.get("info")
    return info if isinstance(info, dict) else {}


async def checkpoint_of(couch: Couch, job: ReplicationJob, report: Document) -> Any:
    """The sequence in the checkpoint of a job, stored at both ends under its id; None if there is none."""
    name = str(report.get("id") or "").partition("+")[0]
    stored = (await couch.get(job.local, f"_local/{name}") if name else None) or {}
    return stored.get("source_last_seq", stored.get("last_seq"))  # that of the embedded database


def is_of(device: str, document: Document) -> bool:
    """Whether growd wrote this document for this device."""
    mark = document.get("growd")
    return isinstance(mark, dict) and mark.get("device") == device


def is_same(document: Document, present: Document) -> bool:
    """Whether both ask for the same, without what CouchDB and `restarted` write into a document."""
    return _essence(document) == _essence(present)


def restarted(document: Document, present: Document) -> Document:
    """The document in place of `present`, changed so that the replication starts again at its checkpoint.

    CouchDB ignores a new revision without a change that concerns it, and a document that was deleted and
    written again at once may look like one (`couch_replicator_doc_processor:updated_doc`). The timeout is no
    part of the checkpoint's id, so it changes by 1 ms.
    """
    timeout = _TIMEOUT_MS + (present.get("connection_timeout") == _TIMEOUT_MS)
    return document | {"_rev": present["_rev"], "connection_timeout": timeout}


def _recipes_for(device: str, group: str) -> Document:
    """Recipes for all, and those whose `growd_for` names this device or its group."""
    mine = [device, *([f"group:{group}"] if group else [])]
    for_all, for_me = {"growd_for": {"$exists": False}}, {"growd_for": {"$elemMatch": {"$in": mine}}}
    return _RECIPES | {"$or": [for_all, for_me]}


def _essence(document: Document) -> dict[str, Any]:
    left_out = ("connection_timeout", *_WRITTEN_BY_COUCHDB)
    return {name: value for name, value in document.items() if not name.startswith(left_out)}


def _of_environments(environments: tuple[str, ...]) -> Document:
    return _POINTS | {"environment": {"$in": list(environments)}} if environments else _POINTS
