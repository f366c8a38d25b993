"""The store on the bus: how it fares, and what an operator can ask of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import counted
from growd.bus.fields import Field, Kind
from growd.bus.services import SUCCESS
from growd.store.errors import LocalStoreError

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.store.losses import Losses
    from growd.store.outbox import Outbox
    from growd.store.shipper import Shipper

_log = logging.getLogger(__name__)

DAY_S: Final = 86_400.0
MOST_LISTED: Final = 1_000
_LIMIT = Field(
    "limit", Kind.INT64, 1, MOST_LISTED, default=100, doc="how many at most; the oldest come first"
)
_LISTED = (*SUCCESS, Field("results", Kind.JSON, default=[]))


class StoreStatus(msgspec.Struct, frozen=True):
    """The state of the way of points into the database.

    Points: `waiting` are not in the database yet, `unsaved` of them in memory only; `thinned` and `dropped`
    were removed for want of room since growd started, and `shipped` went into the database; `rejected` were
    refused by it. `dropped_ever` counts over restarts; `dropped_at` is when the last one was dropped (UNIX
    seconds, 0 for never), `lost_ago_s` the same in seconds, None if none was in this run. `is_losing`: within
    the last ten minutes, or the data folder is gone. `saving` and `shipping` give the reason why points can
    not be saved or sent, empty while they can; `since` is when shipping began to fail (UNIX seconds, 0 if it
    does not). `notices` lists what was damaged at the start.
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

    def has_lost(self, now: float) -> bool:
        """Whether points were lost in the day before `now`, in UNIX seconds."""
        return bool(self.dropped_ever) and now - self.dropped_at < DAY_S


class StoreNode:
    """The node `store`: its state, and the services `store/rejected` and `store/retry_rejected`."""

    def __init__(
        self, bus: Bus, outbox: Outbox, shipper: Shipper, losses: Losses, notices: list[str]
    ) -> None:
        self._losses = losses
        self._outbox = outbox
        self._shipper = shipper
        self._notices = notices
        self.node = bus.node("store")
        self.node.describe("store", lambda: msgspec.to_builtins(self.status()))
        self.node.serve(
            "store/rejected",
            "growd/ListRejected",
            self._list_rejected,
            arguments=(_LIMIT,),
            reply=_LISTED,
            doc="Points that the database refused, each with the reason and when that was.",
        )
        self.node.serve(
            "store/retry_rejected",
            "growd/RetryRejected",
            self._retry_rejected,
            doc="Send the points that the database refused once more.",
        )

    def status(self) -> StoreStatus:
        """As it is now."""
        outbox, shipper = self._outbox, self._shipper
        return StoreStatus(
            waiting=outbox.depth(),
            unsaved=outbox.unsaved,
            thinned=outbox.thinned,
            dropped=outbox.dropped,
            rejected=outbox.set_aside,
            saving=outbox.fault or outbox.file_fault or "",
            shipping=shipper.fault or "",
            since=shipper.failing_since,
            notices=self._notices,
            shipped=shipper.shipped,
            dropped_ever=self._losses.total,
            dropped_at=self._losses.last_at,
            lost_ago_s=self._losses.lost_ago_s,
            is_losing=self._losses.is_losing,
        )

    async def _list_rejected(self, limit: int) -> dict[str, Any]:
        try:
            found = await self._outbox.rejected(limit)
        except LocalStoreError as error:
            return {"success": False, "message": str(error)}
        listed = [
            {"point": one.point.document(), "reason": one.reason, "rejected_at": one.rejected_at}
            for one in found
        ]
        held = self._outbox.set_aside
        return {"success": True, "message": f"{counted(held, 'point')} set aside", "results": listed}

    async def _retry_rejected(self) -> dict[str, Any]:
        try:
            number = await self._outbox.retry_rejected()
        except LocalStoreError as error:
            return {"success": False, "message": str(error)}
        _log.info("%s that the database refused is sent again", counted(number, "point"))
        self._shipper.ship_now()
        return {"success": True, "message": f"{counted(number, 'point')} sent again"}
