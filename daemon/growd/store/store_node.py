"""The node `store` on the bus: its state, and services for rejected points."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import counted
from growd.bus.fields import Field, Kind
from growd.bus.parameter_rules import MAX_BYTES
from growd.bus.services import SUCCESS
from growd.runtime.sentence import plain
from growd.store.errors import LocalStoreError

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.store.entries.journal import GrowersJournal
    from growd.store.losses import Losses
    from growd.store.outbox import Outbox
    from growd.store.shipper import Shipper

_log = logging.getLogger(__name__)

DAY_S: Final = 86_400.0
_PATIENCE_S: Final = 2.0  # for the disk
MOST_LISTED: Final = 1_000
_LIMIT = Field(
    "limit", Kind.INT64, 1, MOST_LISTED, default=100, doc="how many at most; the oldest come first"
)
_LISTED = (*SUCCESS, Field("results", Kind.JSON, default=[]))


class StoreStatus(msgspec.Struct, frozen=True):
    """Counts of points, and what is wrong. Times are UNIX seconds.

    `waiting` points are not delivered yet; `unsaved` of them are not durable. Since the start, `thinned` and
    `dropped` points went for lack of room, and `shipped` points were delivered. The database refused
    `rejected` points. `dropped_ever` counts over restarts; `dropped_at` is the time of the last one, 0 for
    never, `lost_ago_s` its age, None if there was none in this run. `is_losing` holds for ten minutes after a
    loss, and while the data folder is gone. `oldest_at` is the time of the oldest point that waits to be
    sent, None without one. `saving` and `shipping` say why points can't be made durable or
    sent, "" if they can; `since` is when sending failed first, 0 if it works. `notices` are about damage that
    was found at the start. `device` is the id of the device, with which the ids of its points begin.
    """

    waiting: int
    unsaved: int
    thinned: int
    dropped: int
    rejected: int
    saving: str
    shipping: str
    since: float
    notices: list[str]
    shipped: int = 0
    dropped_ever: int = 0
    dropped_at: float = 0.0
    lost_ago_s: float | None = None
    is_losing: bool = False
    oldest_at: float | None = None
    device: str = ""

    def has_lost(self, now: float) -> bool:
        """Whether points were lost in the day before `now`, in UNIX seconds."""
        return bool(self.dropped_ever) and now - self.dropped_at < DAY_S


class StoreNode:
    """The node `store`: its state, and the services `store/rejected` and `store/retry_rejected`."""

    def __init__(
        self,
        bus: Bus,
        outbox: Outbox,
        shipper: Shipper,
        losses: Losses,
        notices: list[str],
        *,
        device: str = "",
        journal: GrowersJournal | None = None,
    ) -> None:
        self._journal = journal
        self._losses = losses
        self._outbox = outbox
        self._shipper = shipper
        self._notices = notices
        self._device = device
        self._oldest_at: float | None = None
        self._is_looking = False
        self.node = bus.node("store")
        self._parameters = bus.parameters
        self.node.describe("store", lambda: plain(self.status()), prepare=self.look)
        self.node.describe("problems", self._problems)
        self.node.serve(
            "store/rejected",
            "growd/ListRejected",
            self._list_rejected,
            arguments=(_LIMIT,),
            reply=_LISTED,
            only_reads=True,
            doc="Rejected points, each with the reason and the time.",
        )
        self.node.serve(
            "store/retry_rejected",
            "growd/RetryRejected",
            self._retry_rejected,
            doc="Send rejected points again.",
        )

    async def look(self) -> None:
        """Look for the oldest point that waits; it may be on the disk.

        One look at a time: while the disk hangs, requests for the status must not fill its queue.
        """
        if self._is_looking:
            return
        self._is_looking = True
        try:
            async with asyncio.timeout(_PATIENCE_S):
                self._oldest_at = await self._outbox.oldest_at()
        except (LocalStoreError, TimeoutError):
            pass  # the last one that was found is shown
        finally:
            self._is_looking = False

    def status(self) -> StoreStatus:
        """The present state."""
        outbox, shipper = self._outbox, self._shipper
        return StoreStatus(
            waiting=outbox.undelivered,
            unsaved=outbox.unsaved,
            thinned=outbox.thinned,
            dropped=outbox.dropped,
            rejected=outbox.rejected_count + len(self._rejected_entries()),
            saving=str(outbox.fault) or outbox.file_fault or "",
            shipping=str(shipper.fault),
            since=shipper.failing_since,
            notices=self._notices,
            shipped=shipper.delivered,
            dropped_ever=self._losses.total,
            dropped_at=self._losses.last_at,
            lost_ago_s=self._losses.lost_ago_s,
            is_losing=self._losses.is_losing,
            oldest_at=self._oldest_at if outbox.sendable else None,
            device=self._device,
        )

    def _problems(self) -> list[dict[str, Any]]:
        size = self._parameters.size
        if size <= MAX_BYTES / 2:
            return []
        used = f"parameters take {size / 1e6:.1f} MB of {MAX_BYTES / 1e6:g} MB"
        text = f"{used}; delete those that nobody needs: growd param list, growd param delete NAME"
        return [{"text": text, "code": "parameters_large", "fields": {"bytes": size, "most": MAX_BYTES}}]

    async def _list_rejected(self, limit: int) -> dict[str, Any]:
        found = await self._outbox.rejected(limit)
        listed = [
            {"point": one.point.document(), "reason": one.reason, "rejected_at": one.rejected_at}
            for one in found
        ]
        listed += self._rejected_entries()[: limit - len(listed)]
        number = self.status().rejected
        return {"success": True, "message": f"{counted(number, 'rejected point')}", "results": listed}

    async def _retry_rejected(self) -> dict[str, Any]:
        number = await self._outbox.retry_rejected()
        number += self._journal.delivery.retry() if self._journal is not None else 0
        _log.info("sending %s again", counted(number, "rejected point"))
        self._shipper.ship_now()
        return {"success": True, "message": f"{counted(number, 'point')} sent again"}

    def _rejected_entries(self) -> list[dict[str, Any]]:
        return [] if self._journal is None else self._journal.rejected()
