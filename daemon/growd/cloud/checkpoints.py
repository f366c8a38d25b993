"""Checkpoints of the replications of devices: `_local` documents of a database of their own.

If this database is deleted and made again, all devices compare everything again. A replication that runs
meanwhile would write its present checkpoint into the new database, and never look back. So a checkpoint that
is not there is refused once, which makes the replication begin anew. Devices that were enrolled later are
exempt, and a database with the document `FRESH`, which is as old as the fleet.

The id of a checkpoint has the time at which the database was made. So a receiver that does not know of the
new database yet writes where nobody reads.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.cloud.point_target import stored_by_quorum
from growd.server.errors import ApiError
from growd.server.json_answer import JsonAnswer, json_answer
from growd.store.errors import CouchUnavailableError

if TYPE_CHECKING:
    from growd.cloud.fleet import Fleet
    from growd.runtime.clock import Clock
    from growd.store.couch import Couch

MOST_CHECKPOINT: Final = 64 * 1024
"""Bytes: CouchDB's replicator keeps 50 sessions, with sequences of some hundred bytes."""

MOST_NAMES: Final = 64
"""Checkpoints that a device writes while a receiver runs: each setting of a replication has a name."""

LOOK_S: Final = 1.0
"""Between looks whether the database is still the same."""

FRESH: Final = "fresh"

_log = logging.getLogger(__name__)
_MOST_ID: Final = 200
_REMEMBERED: Final = 20_000  # devices


class Checkpoints:
    """Keeps those of each device apart. Methods raise `CouchError` and `ApiError`."""

    def __init__(self, couch: Couch, database: str, fleet: Fleet, clock: Clock) -> None:
        self._couch = couch
        self._database = database
        self._fleet = fleet
        self._clock = clock
        self._made = ""
        """When the database was made, in seconds since 1970."""
        self._is_fresh = False
        self._looked = -math.inf
        self._written: OrderedDict[str, dict[str, bool]] = OrderedDict()
        """Of each device the ids that are there (True), and those that were refused once."""

    async def get(self, device: str, database: str, name: str) -> JsonAnswer:
        """A checkpoint, or 404."""
        await self._look()
        status, answer = await self._couch.send("GET", self._place(device, database, name))
        if status == HTTPStatus.NOT_FOUND:
            return JsonAnswer(answer, status)
        return _renamed(name, "GET", status, answer)

    async def put(self, device: str, database: str, name: str, document: dict[str, Any]) -> JsonAnswer:
        """Write a checkpoint."""
        await self._look()
        place = self._place(device, database, name)
        await self._admit(device, place)
        content = msgspec.json.encode({**document, "_id": place[1]})
        status, answer = await self._couch.send("PUT", place, content)
        if status in {HTTPStatus.CONFLICT, HTTPStatus.BAD_REQUEST}:
            return JsonAnswer(answer, status)
        return _renamed(name, "PUT", status, answer)

    async def _look(self) -> None:
        if self._clock.monotonic() - self._looked < LOOK_S:
            return
        info = await self._couch.info(self._database)
        if info is None:
            raise CouchUnavailableError(
                f"there is no database {self._database}; `growd cloud prepare` makes it"
            )
        if info["instance_start_time"] != self._made:
            self._is_fresh = await self._couch.get(self._database, FRESH) is not None
            self._made = info["instance_start_time"]
            self._written.clear()
        self._looked = self._clock.monotonic()

    def _place(self, device: str, database: str, name: str) -> tuple[str, str]:
        if not 0 < len(name) <= _MOST_ID:
            raise ApiError(400, "bad_request", f"the id of a checkpoint has 1 to {_MOST_ID} characters")
        return self._database, f"_local/{self._made}:{device}:{database}:{name}"

    async def _admit(self, device: str, place: tuple[str, str]) -> None:
        """Refuse further names than a device needs, and once a checkpoint that is not there."""
        written = self._written.setdefault(device, {})
        self._written.move_to_end(device)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)
        if written.get(place[1]):
            return
        if place[1] not in written and len(written) >= MOST_NAMES:
            raise ApiError(403, "forbidden", f"a device writes at most {MOST_NAMES} checkpoints")
        is_first = place[1] not in written
        if is_first and not await self._is_there(place) and await self._is_older(device):
            written[place[1]] = False
            _log.info("a checkpoint of %s was lost: it compares everything again", device)
            # replicators try again after 503, write no checkpoints after 403, and begin anew after 400
            raise ApiError(400, "checkpoint_lost", "the checkpoint was lost; replicate from the beginning")
        written[place[1]] = True

    async def _is_there(self, place: tuple[str, str]) -> bool:
        status, answer = await self._couch.send("GET", place)
        if status == HTTPStatus.NOT_FOUND:
            return False
        stored_by_quorum("GET of a checkpoint", status, answer)
        return True

    async def _is_older(self, device: str) -> bool:
        """Whether a device may have had checkpoints in an earlier database."""
        return not self._is_fresh and (await self._fleet.device(device)).enrolled < float(self._made)


def _renamed(name: str, method: str, status: int, answer: bytes) -> JsonAnswer:
    found = stored_by_quorum(f"{method} of a checkpoint", status, answer)
    own_name = {key: f"_local/{name}" for key in ("_id", "id") if key in found}
    return json_answer({**found, **own_name}, status)
