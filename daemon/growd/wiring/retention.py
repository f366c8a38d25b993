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
    from zoneinfo import ZoneInfo

    from growd.bus import Bus
    from growd.config import Config
    from growd.runtime.pauses import Pace
    from growd.store.database import Database
    from growd.store.local import LocalStore
    from growd.wiring.store import Storage

_SENDING_S: Final = 60.0  # of a batch


def configured_rollups(config: Config, bus: Bus, database: Database, storage: Storage) -> RollupTask:
    """The task of the rollups; its `feed` is for the parts that need them."""

    def delay() -> float:
        return storage.max_age_s + _SENDING_S

    feed = RollupFeed(database.couch, database.names, config.http.name, now=bus.clock.time, delay=delay)
    task = RollupTask(bus, feed, prepare=database.prepare, delay=delay)
    database.when_up(task.look_now)
    return task


def configured_retention(
    config: Config,
    bus: Bus,
    local: LocalStore,
    database: Database,
    *,
    storage: Storage,
    rollups: RollupFeed,
    zone: ZoneInfo | None,
) -> RetentionKeeper:
    """The task of retention, with quiet hours in the time zone `zone`."""
    far_end = FarEnd(database.couch, config.replication, database.names, local.device)

    def retirements(pace: Pace) -> list[Retirement]:
        return [
            Retirement(database, rollups, feed, far_end, pace) for feed in (rollups.points, rollups.events)
        ]

    return RetentionKeeper(
        bus,
        local,
        config.retention,
        prepared=database.prepared,
        retirements=retirements,
        compaction=Compaction(database),
        measure=lambda: disk_use(database, local.path.parent),
        store_less=storage.store_less,
        record=storage.record,
        zone=zone,
    )
