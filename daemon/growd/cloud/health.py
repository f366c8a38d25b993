"""Whether a receiver can serve, for the proxy in front of it."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from growd.cloud.quorum import Quorum
from growd.server.errors import ApiError
from growd.store.errors import CouchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.cloud.months import CloudNames
    from growd.store.couch import Couch

REMEMBERED_S: Final = 1.0
"""An answer, so that any number of questions cost CouchDB one."""


class CloudHealth:
    """Asks CouchDB over connections of its own: requests of devices do not delay it."""

    def __init__(self, couch: Couch, names: CloudNames, monotonic: Callable[[], float]) -> None:
        self._couch = couch
        self._names = names
        self._quorum = Quorum(couch)
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._asked = -math.inf
        self._fault: ApiError | CouchError | None = None

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
        except CouchError as error:
            return error
        return None
