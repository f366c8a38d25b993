"""The database server as configured, and the history that is read from it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from yarl import URL

from growd.bus.errors import UnknownNameError
from growd.store.database import Database
from growd.store.errors import CouchUnavailableError
from growd.store.history.history import History
from growd.store.history.query import CATEGORIES
from growd.wiring.files import read_credentials, shipped_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from pathlib import Path

    from growd.bus import Bus
    from growd.config import Config
    from growd.store.reading.source import PointSource
    from growd.wiring.store import Core


def configured_database(config: Config, data: Path, owner: tuple[int, int] | None = None) -> Database:
    """The database of a daemon with this data folder. Blocking: reads credentials. Raises `ConfigError`.

    With `owner` the embedded database runs as this user and group.
    """
    couchdb = config.couchdb
    return Database(
        files=shipped_folder("couchdb")[0],
        data=data / "couchdb",
        design_name=config.http.name,
        url=couchdb.url,
        credentials=read_credentials(couchdb.credentials_file),
        prefix=couchdb.prefix,
        client_design_documents=couchdb.client_design_documents,
        owner=owner,
    )


def configured_history(core: Core) -> History:
    """The history of all environments; enter it before use."""
    config, database = core.config, core.database

    @asynccontextmanager
    async def reading() -> AsyncIterator[None]:
        async with database.waiting(), core.storage.shipper.reading():
            yield

    return History(
        partial(point_source, config, database),
        reading,
        partial(known_variables, frozenset(config.chambers()), core.bus),
        building=None if database.is_embedded else database.index_build,
        holds_s=core.storage.holds_s,
        now=core.bus.clock.time,
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
    from growd.store.reading.source import PointSource  # noqa: PLC0415  loaded by who reads points

    names = database.names
    return PointSource(
        URL(database.address),
        names.points,
        names.events,
        config.http.name,
        database.credentials,
        rollups=names.rollups,
        lists_series=not database.is_embedded,
    )
