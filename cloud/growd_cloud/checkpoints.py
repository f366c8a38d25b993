"""Checkpoints of the replications of devices: `_local` documents of a database of their own.

If this database is deleted and made again, all devices compare everything again. Each database that a device
sees has the time at which it was made as `instance_start_time`. CouchDB's replicator compares that before
each checkpoint, and begins anew if it has changed; the embedded database does so if its checkpoint is gone.

The id of a checkpoint has this time too. So a receiver that does not know of the new database yet writes
where nobody reads.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.server.errors import ApiError
from growd.server.json_answer import JsonAnswer, json_answer
from growd.store.errors import CouchUnavailableError
from growd_cloud.point_target import stored_by_quorum

if TYPE_CHECKING:
    from growd.runtime.clock import Clock
    from growd.store.couch import Couch

MOST_CHECKPOINT: Final = 64 * 1024
"""Bytes: CouchDB's replicator keeps 50 sessions, with sequences of some hundred bytes."""

MOST_NAMES: Final = 64
"""Checkpoints that a device writes while a receiver runs: each setting of a replication has a name."""

LOOK_S: Final = 1.0
"""Between looks whether the database is still the same."""

_REVISION: Final = re.compile(r"0-[0-9]{1,18}")  # CouchDB fails (500) at others
_MOST_ID: Final = 200
_REMEMBERED: Final = 20_000  # devices


class Checkpoints:
    """Keeps those of each device apart. Methods raise `CouchError` and `ApiError`."""

    def __init__(self, couch: Couch, database: str, clock: Clock) -> None:
        self._couch = couch
        self._database = database
        self._clock = clock
        self._made = ""
        self._looked = -math.inf
        self._written: OrderedDict[str, set[str]] = OrderedDict()
        """The ids that each device has written."""

    async def made(self) -> str:
        """When the database was made, in seconds since 1970."""
        if self._clock.monotonic() - self._looked >= LOOK_S:
            info = await self._couch.info(self._database)
            if info is None:
                raise CouchUnavailableError(
                    f"there is no database {self._database}; the next start of a receiver makes it"
                )
            self._made = info["instance_start_time"]
            self._looked = self._clock.monotonic()
        return self._made

    async def get(self, device: str, database: str, name: str) -> JsonAnswer:
        """A checkpoint, or 404."""
        status, answer = await self._couch.send("GET", await self._place(device, database, name))
        if status == HTTPStatus.NOT_FOUND:
            return JsonAnswer(answer, status)
        return _renamed(name, "GET", status, answer)

    async def put(self, device: str, database: str, name: str, document: dict[str, Any]) -> JsonAnswer:
        """Write a checkpoint."""
        if not _REVISION.fullmatch(str(document.get("_rev", "0-0"))):
            raise ApiError(400, "bad_request", "_rev of a checkpoint must be 0-<number>")
        place = await self._place(device, database, name)
        self._count(device, place[1])
        content = msgspec.json.encode({**document, "_id": place[1]})
        status, answer = await self._couch.send("PUT", place, content)
        if status in {HTTPStatus.CONFLICT, HTTPStatus.BAD_REQUEST}:
            return JsonAnswer(answer, status)
        return _renamed(name, "PUT", status, answer)

    async def _place(self, device: str, database: str, name: str) -> tuple[str, str]:
        if not 0 < len(name) <= _MOST_ID:
            raise ApiError(400, "bad_request", f"the id of a checkpoint has 1 to {_MOST_ID} characters")
        return self._database, f"_local/{await self.made()}:{device}:{database}:{name}"

    def _count(self, device: str, document_id: str) -> None:
        """Refuse further names than a device needs."""
        written = self._written.setdefault(device, set())
        self._written.move_to_end(device)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)
        if document_id not in written and len(written) >= MOST_NAMES:
            raise ApiError(403, "forbidden", f"a device writes at most {MOST_NAMES} checkpoints")
        written.add(document_id)


def _renamed(name: str, method: str, status: int, answer: bytes) -> JsonAnswer:
    found = stored_by_quorum(f"{method} of a checkpoint", status, answer)
    own_name = {key: f"_local/{name}" for key in ("_id", "id") if key in found}
    return json_answer({**found, **own_name}, status)
