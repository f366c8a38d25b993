"""Which replications a configuration asks for, as documents of CouchDB's `_replicator` database.

https://docs.couchdb.org/en/3.5.x/replication/replicator.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from growd.config import Replication
    from growd.store.bootstrap import Databases
    from growd.store.couch import Document

# CouchDB writes these into the document; the rest is ours.
_ITS_OWN: Final = ("_rev", "owner", "_replication_")
_TIMEOUT_MS: Final = 30_000  # CouchDB's default

# No design document, which would run where it arrives, and no deletion: a device that clears old points off
# its card doesn't clear them out of the collection.
_POINTS: Final[Document] = {"environment": {"$exists": True}, "_deleted": {"$exists": False}}
# Deletions too, of which nothing is left but the id, and again no design document.
_RECIPES: Final[Document] = {"_id": {"$regex": "^[^_]"}}


@dataclass(frozen=True, slots=True)
class Server:
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


@dataclass(frozen=True, slots=True)
class Job:
    """One replication: from a database here to one far away (`goes_up`), or the other way."""

    name: str
    device: str
    goes_up: bool
    here: str
    far: str
    selector: Document

    @property
    def id(self) -> str:
        """The `_id` of its document."""
        return f"{id_prefix(self.device)}{self.name}"

    @property
    def source(self) -> str:
        """The name of the database that it reads."""
        return self.here if self.goes_up else self.far

    def document(self, here: Server, far: Server) -> Document:
        """Its document; `growd` marks it as one of this device."""
        ends = here.end(self.here), far.end(self.far)
        source, target = ends if self.goes_up else reversed(ends)
        return {
            "_id": self.id,
            "source": source,
            "target": target,
            "continuous": True,
            "selector": self.selector,
            "connection_timeout": _TIMEOUT_MS,
            "growd": {"device": self.device},
        }


def id_prefix(device: str) -> str:
    """What the ids of this device's documents begin with."""
    return f"growd-{device}-"


def jobs(wanted: Replication, names: Databases, device: str) -> list[Job]:
    """What the configuration asks for."""
    recipes = wanted.recipes_database.replace("{device}", device)
    series = (
        ("points", wanted.points, names.points, wanted.points_database),
        ("events", wanted.events, names.events, wanted.events_database),
    )
    found = [
        Job(
            name,
            device,
            goes_up=True,
            here=here,
            far=far.replace("{device}", device),
            selector=_of_environments(wanted.environments),
        )
        for name, direction, here, far in series
        if direction == "up"
    ]
    if wanted.recipes != "off":
        found.append(
            Job("recipes_down", device, goes_up=False, here=names.recipes, far=recipes, selector=_RECIPES)
        )
    if wanted.recipes == "both":
        found.append(
            Job("recipes_up", device, goes_up=True, here=names.recipes, far=recipes, selector=_RECIPES)
        )
    return found


def is_of(device: str, document: Document) -> bool:
    """Whether growd made this document for this device."""
    mark = document.get("growd")
    return isinstance(mark, dict) and mark.get("device") == device


def is_same(document: Document, present: Document) -> bool:
    """Whether the document that is there asks for the same, whatever CouchDB or `restarted` wrote into it."""
    return _essence(document) == _essence(present)


def restarted(document: Document, present: Document) -> Document:
    """The document in place of `present`, so that CouchDB begins the replication anew, where it had come to.

    CouchDB leaves a job alone whose document changes in nothing that concerns it
    (`couch_replicator_doc_processor:updated_doc`). A deleted document that is written again at once may look
    so too. So one option that doesn't matter differs, and is no part of what a checkpoint is found by.
    """
    timeout = _TIMEOUT_MS + (present.get("connection_timeout") == _TIMEOUT_MS)
    return document | {"_rev": present["_rev"], "connection_timeout": timeout}


def _of_environments(environments: tuple[str, ...]) -> Document:
    return _POINTS | {"environment": {"$in": list(environments)}} if environments else _POINTS


def _essence(document: Document) -> dict[str, Any]:
    left_out = ("connection_timeout", *_ITS_OWN)
    return {name: value for name, value in document.items() if not name.startswith(left_out)}
