"""The database server and the replications, built from the configuration."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd.store.database import Database
from growd.store.replication import Replicator
from growd.wiring.files import read_credentials, read_trust, shipped_folder

if TYPE_CHECKING:
    from pathlib import Path

    from growd.bus import Bus
    from growd.config import Config, Replication
    from growd.store.local import LocalStore
    from growd.store.replication import ReplicationTrust


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


@dataclass(frozen=True)
class CloudAccess:
    """The login at the server of [replication], and the certificates that verify it."""

    credentials: tuple[str, str] | None
    trust: ReplicationTrust


async def read_cloud_access(options: Replication) -> CloudAccess:
    """Raises `ConfigError` for unusable credentials or certificates."""
    file = options.credentials_file
    credentials = await asyncio.to_thread(read_credentials, file, "replication", is_secret=True)
    return CloudAccess(credentials, await asyncio.to_thread(read_trust, options))


def configured_replicator(
    config: Config, bus: Bus, local: LocalStore, database: Database, access: CloudAccess
) -> Replicator:
    """The replications of a database."""
    replicator = Replicator(
        bus,
        database,
        config.replication,
        local.device,
        credentials=access.credentials,
        trust=access.trust,
    )
    database.when_up(replicator.look_now)
    return replicator
