"""The data folder and the database of a chamber, for the commands that copy both."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec
from click.core import ParameterSource

from growd.host.data_folder import own_folder, running_in
from growd.store.bootstrap import Databases
from growd.store.couch import Couch
from growd.wiring.database import configured_database
from growd.wiring.files import read_credentials
from growd_cli.asking import status_of
from growd_cli.setup_pi import INSTALLED
from growd_machine.backup.archive import BackupError
from growd_machine.backup.state import device_of
from growd_machine.owner import as_owner

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from contextlib import AbstractContextManager

    import click

    from growd.config import Config
    from growd.store.database import Database
    from growd_cli.options import DaemonOptions

INSTALLED_DATA: Final = Path("/var/lib/growd")


class ChamberPlace:
    """A data folder, and the configuration that belongs to it."""

    def __init__(self, data: Path, daemon: DaemonOptions) -> None:
        self.data = data
        self.daemon = daemon
        self.config: Config = daemon.configuration()
        self.names = Databases.prefixed(self.config.couchdb.prefix)

    @classmethod
    def chosen(cls, context: click.Context, data: Path, daemon: DaemonOptions) -> ChamberPlace:
        """That of the options; without --data, and where there is no folder `data`, the installed one.

        Blocking. Raises `ConfigError`.
        """
        is_named = context.get_parameter_source("data") is not ParameterSource.DEFAULT
        from_environment = context.get_parameter_source("url") is ParameterSource.ENVIRONMENT
        if is_named and from_environment and running_in(data) is None:
            daemon = msgspec.structs.replace(daemon, url=None)  # that of another growd
        if is_named or data.exists() or not INSTALLED_DATA.exists():
            return cls(data, daemon)
        installed = Path("/") / INSTALLED
        if daemon.config is None and os.access(installed, os.F_OK):
            daemon = msgspec.structs.replace(daemon, config=installed)
        return cls(INSTALLED_DATA, daemon)

    @asynccontextmanager
    async def couch(self) -> AsyncIterator[Couch]:
        """Its database: the configured CouchDB, that of the running growd, or the embedded one.

        The embedded one is started if growd does not run; growd can't start meanwhile. Raises `BackupError`,
        `GrowdError`, `ConfigError`, `CouchError` and `StartError`.
        """
        url = self.config.couchdb.url
        if url:
            login = await asyncio.to_thread(read_credentials, self.config.couchdb.credentials_file)
            database = client_of(url, login, None)
        elif self.daemon.url is not None or await asyncio.to_thread(running_in, self.data) is not None:
            database = self._behind_daemon()
        else:
            database = self.own_database()
        async with database as couch:
            yield couch

    @asynccontextmanager
    async def own_database(self, *, to_restore: bool = False) -> AsyncIterator[Couch]:
        """The configured CouchDB, or the embedded database of a growd that does not run, for this process."""
        database = await asyncio.to_thread(self._database)
        with await asyncio.to_thread(self._locked, to_restore=to_restore):
            async with database:
                running = asyncio.create_task(database.run(), name="embedded database")
                try:
                    if database.is_embedded:
                        await database.until_up()
                    yield database.couch
                finally:
                    running.cancel()
                    await asyncio.wait([running])

    def _database(self) -> Database:
        """Its files get the owner of the data folder, if this process is root and another one owns that."""
        found = self.data.stat()
        is_other = os.geteuid() == 0 and found.st_uid
        return configured_database(self.config, self.data, (found.st_uid, found.st_gid) if is_other else None)

    def _locked(self, *, to_restore: bool) -> AbstractContextManager[object]:
        with as_owner(self.data):
            return own_folder(self.data, to_restore=to_restore)

    @asynccontextmanager
    async def _behind_daemon(self) -> AsyncIterator[Couch]:
        """The database behind the front door of the growd that uses the data folder."""
        await asyncio.to_thread(self._check_device)
        async with front_door(self.daemon) as couch:
            yield couch

    def _check_device(self) -> None:
        """Another growd may answer at this address."""
        with self.daemon.client() as client:
            store = status_of(client).store
            answering, own = "" if store is None else store.device, device_of(self.data)
        if answering and own and answering != own:
            raise BackupError(
                f"the growd at {self.daemon.address()} uses another data folder than {self.data}: "
                "name its folder with --data, or the other address with --url"
            )


@asynccontextmanager
async def front_door(daemon: DaemonOptions) -> AsyncIterator[Couch]:
    """The database behind the running growd. Raises `GrowdError` and `ConfigError`."""
    address = await asyncio.to_thread(daemon.address)
    login, tls = await asyncio.to_thread(lambda: (daemon.login(address), daemon.tls(address)))
    pair = (login.user, login.password) if login else None
    async with client_of(address.root, pair, tls) as couch:
        yield couch


@asynccontextmanager
async def client_of(
    url: str, login: tuple[str, str] | None, tls: ssl.SSLContext | None
) -> AsyncIterator[Couch]:
    """A client of the database server at an address. Raises `CouchError`."""
    connector = aiohttp.TCPConnector(ssl=tls or True)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Couch(session, url, credentials=login)
