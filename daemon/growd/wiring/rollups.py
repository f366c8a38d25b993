"""The rollups of the configured database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.store.rollups.feed import RollupFeed
from growd.store.rollups.task import RollupTask

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.config import Config
    from growd.store.database import Database
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
