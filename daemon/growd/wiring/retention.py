"""Rollups and retention of points in the configured database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.store.retention.compaction import Compaction
from growd.store.retention.far_end import FarEnd
from growd.store.retention.keeping import RetentionKeeper
from growd.store.retention.retirement import Retirement
from growd.store.retention.sizes import disk_use
from growd.store.rollups.feed import RollupFeed
from growd.store.rollups.task import RollupTask

if TYPE_CHECKING:
    from growd.runtime.pauses import Pace
    from growd.wiring.store import Core

_SENDING_S: Final = 60.0  # of a batch


def configured_rollups(core: Core) -> RollupTask:
    """The task of the rollups; its `feed` is for the parts that need them."""

    def delay() -> float:
        return core.config.store.max_age_s + _SENDING_S

    database, name = core.database, core.config.http.name
    feed = RollupFeed(database.couch, database.names, name, now=core.bus.clock.time, delay=delay)
    task = RollupTask(core.bus, feed, prepare=database.prepare, delay=delay)
    database.when_up(task.look_now)
    return task


def configured_retention(core: Core, rollups: RollupFeed) -> RetentionKeeper:
    """The task of retention."""
    config, database, local = core.config, core.database, core.local
    far_end = FarEnd(database.couch, config.replication, database.names, local.device)

    def retirements(pace: Pace) -> list[Retirement]:
        return [
            Retirement(database, rollups, feed, far_end, pace) for feed in (rollups.points, rollups.events)
        ]

    return RetentionKeeper(
        core.bus,
        local,
        config.retention,
        prepared=database.prepared,
        retirements=retirements,
        compaction=Compaction(database),
        measure=lambda: disk_use(database, local.path.parent),
        store_less=core.storage.store_less,
        record=core.storage.record,
        zone=core.zone,
    )
