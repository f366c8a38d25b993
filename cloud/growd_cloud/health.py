"""Whether a receiver can serve, for the proxy in front of it."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from growd.server.errors import ApiError
from growd.store.errors import CouchError
from growd_cloud.point_target import stored_by_quorum
from growd_cloud.quorum import Quorum

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.store.couch import Couch
    from growd_cloud.months import CloudNames

REMEMBERED_S: Final = 1.0
"""An answer, so that any number of questions cost CouchDB one."""

_TRIAL: Final = "_local/trial"
_TRIAL_BYTES: Final = 256 * 1024  # as much as a batch: a full disk may still take a small document
_log = logging.getLogger(__name__)


class CloudHealth:
    """Asks CouchDB over connections of its own: requests of devices do not delay it.

    A disk that is full lets CouchDB answer questions. So after a failed request of a device each look also
    writes a document, until that works: the proxy sends no devices meanwhile.
    """

    def __init__(self, couch: Couch, names: CloudNames, monotonic: Callable[[], float]) -> None:
        self._couch = couch
        self._names = names
        self._is_in_doubt = self._stores_nothing = False
        self._quorum = Quorum(couch)
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._asked = -math.inf
        self._fault: ApiError | CouchError | None = None

    def doubt(self) -> None:
        """CouchDB has failed a request: see whether it stores documents."""
        self._is_in_doubt = True

    async def check(self) -> None:
        """`ApiError` and `CouchError` unless CouchDB answers, with most nodes and its database of devices."""
        async with self._lock:
            if self._monotonic() - self._asked >= REMEMBERED_S:
                self._fault = await self._found()
                self._asked = self._monotonic()
            fault = self._fault
        if fault is not None:
            raise fault.with_traceback(None)

    async def _found(self) -> ApiError | CouchError | None:
        try:
            if not await self._couch.exists(self._names.devices):
                sentence = f"there is no database {self._names.devices}"
                return ApiError(503, "not_prepared", sentence, {"Retry-After": "5"})
            await self._quorum.check()
            if self._is_in_doubt:
                return await self._tried_to_write()
        except CouchError as error:
            return error
        return None

    async def _tried_to_write(self) -> ApiError | None:
        body = msgspec.json.encode({"filling": secrets.token_hex(_TRIAL_BYTES // 2)})
        try:
            status, answer = await self._couch.send("PUT", (self._names.checkpoints, _TRIAL), body)
            stored_by_quorum(f"PUT {_TRIAL}", status, answer)
        except CouchError as error:
            if not self._stores_nothing:
                self._stores_nothing = True
                _log.error("CouchDB stores no documents: %s; see its log and its disk", error)
            sentence = "CouchDB stores no documents; see its log and its disk"
            return ApiError(503, "not_stored", sentence, {"Retry-After": "5"})
        if self._stores_nothing:
            _log.info("CouchDB stores documents again")
        self._is_in_doubt = self._stores_nothing = False
        return None
