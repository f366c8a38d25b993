"""The history of the API, read from the configured database with growd's own login."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from yarl import URL

from growd.bus.errors import UnknownNameError
from growd.store.errors import CouchUnavailableError
from growd.store.history.history import CATEGORIES, History

if TYPE_CHECKING:
    from collections.abc import Collection

    from growd.bus import Bus
    from growd.config import Config
    from growd.store.database import Database
    from growd.store.exporting.source import PointSource
    from growd.wiring.store import Storage


def configured_history(config: Config, bus: Bus, database: Database, storage: Storage) -> History:
    """The history of all environments; enter it before use."""
    building = None if database.is_embedded else database.index_build
    return History(
        partial(point_source, config, database),
        storage.shipper.reading,
        partial(known_variables, frozenset(config.chambers()), bus),
        building=building,
        holds_s=storage.holds_s,
        now=bus.clock.time,
    )


def known_variables(environments: Collection[str], bus: Bus, environment: str) -> set[str]:
    """The variables that have topics in an environment. Raises `UnknownNameError` for an unknown one."""
    if environment not in environments:
        raise UnknownNameError("environment", environment)
    prefixes = [f"{environment}/{category}/" for category in CATEGORIES]
    names = bus.topics.names()
    return {name.removeprefix(prefix) for prefix in prefixes for name in names if name.startswith(prefix)}


def point_source(config: Config, database: Database) -> PointSource:
    """Where the points are. Raises `CouchUnavailableError` while no database is running."""
    if database.address is None:
        raise CouchUnavailableError("no database is running; see growd status")
    from growd.store.exporting.source import PointSource  # noqa: PLC0415  loaded by who reads points

    names = database.names
    address = URL(database.address)
    login = database.credentials
    return PointSource(
        address,
        names.points,
        names.events,
        config.http.name,
        login,
        rollups=names.rollups,
        lists_series=not database.is_embedded,
    )
