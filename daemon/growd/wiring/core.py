"""What the parts of a daemon around its store have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from zoneinfo import ZoneInfo

    from growd.bus import Bus
    from growd.config import Config
    from growd.store.database import Database
    from growd.store.local import LocalStore
    from growd.wiring.store import Storage


@dataclass(frozen=True)
class Core:
    """The configuration, the bus and the store. Days begin in `zone` (None: local)."""

    present: Callable[[], Config]
    """Returns the configuration as it is in force, also after a reload."""
    bus: Bus
    local: LocalStore
    database: Database
    storage: Storage
    zone: ZoneInfo | None

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.present()
