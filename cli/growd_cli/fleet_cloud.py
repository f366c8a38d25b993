"""The cloud that `growd fleet` asks: its CouchDB with the login of a person, or a receiver for the list."""

from __future__ import annotations

import os
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click
import msgspec

from growd.runtime.clock import RealClock
from growd.runtime.event_loop import run_on_loop
from growd.store.couch_answers import checked
from growd.store.errors import CouchError, CouchRefusedError, CouchUnavailableError
from growd_cli.chamber import client_of
from growd_cli.client import NOT_ALLOWED, NOT_REACHED, REFUSED, WRONG_USAGE
from growd_cli.cloud import prefix_option, refuse_receiver, server_of
from growd_cli.names import did_you_mean
from growd_cli.options import bundled, refuse
from growd_client.trust import trusting
from growd_cloud.accounts import Accounts
from growd_cloud.devices import Fleet, FleetRow
from growd_cloud.months import CloudNames
from growd_cloud.serving import CloudServer

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from typing import TypeVar

    from growd.store.couch import Couch

    T = TypeVar("T")

_LOGIN: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_OPTIONS: Final = (
    click.option(
        "--couchdb",
        required=True,
        metavar="URL",
        envvar="GROWD_CLOUD",
        show_envvar=True,
        help="Address of the cloud's CouchDB; for list also of a receiver.",
    ),
    click.option(
        "--credentials",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        envvar="GROWD_CLOUD_CREDENTIALS",
        show_envvar=True,
        help="Two lines, user and password; mode 600. Without it the command asks.",
    ),
    click.option(
        "--ca",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Trust the certificates in FILE (https).",
    ),
    prefix_option,
)
_NAMES: Final = ("couchdb", "credentials", "ca", "prefix")


class _Answer(msgspec.Struct):
    """The answer of GET /_fleet."""

    devices: list[FleetRow]


@dataclass(frozen=True)
class FleetCloud:
    """An open connection to the cloud. All methods raise `CouchError`."""

    couch: Couch
    names: CloudNames

    @property
    def accounts(self) -> Accounts:
        """The accounts of devices, for an administrator."""
        return Accounts(self.couch, self.names, time.time)

    async def rows(self) -> list[FleetRow]:
        """All devices: from the database, or for a reader from a receiver."""
        status, body = await self.couch.send("GET", ("_fleet",))
        if status == HTTPStatus.OK:
            try:
                return msgspec.json.decode(body, type=_Answer).devices
            except msgspec.DecodeError as error:
                refuse(f"the list of the receiver can't be read: {error}; is its growd of another version?")
        is_wrong = status == HTTPStatus.UNAUTHORIZED and b"server admin" not in body
        if is_wrong or status == HTTPStatus.TOO_MANY_REQUESTS:
            checked("GET /_fleet", status, body)  # a wrong password is not tried twice: it locks the account
        pages = Fleet(self.couch, self.names, RealClock()).rows()
        return [row async for page in pages for row in page]

    async def found(self, wanted: Sequence[str]) -> list[FleetRow]:
        """These devices, by id or name. Ends the command for an unknown one."""
        rows = await self.rows() if wanted else []
        return [_only(each, rows) for each in wanted]

    async def account_or_row(self, wanted: str) -> FleetRow:
        """As `found`; also a device that has an account and no report: it is named by its id."""
        rows = await self.rows()
        if wanted not in {row.device for row in rows} and await self.accounts.has_account(wanted):
            return FleetRow(device=wanted, name=wanted, group="", state="new")
        return _only(wanted, rows)


@dataclass(frozen=True)
class CloudPlace:
    """The cloud of the options."""

    server: CloudServer
    tls: ssl.SSLContext | None

    def run(self, work: Callable[[FleetCloud], Awaitable[T]]) -> T:
        """Do something with an open connection. Ends the command for an error of CouchDB."""
        try:
            return run_on_loop(self._run(work))
        except CouchError as error:
            _refuse(self.server.url, error)

    async def _run(self, work: Callable[[FleetCloud], Awaitable[T]]) -> T:
        async with self._opened() as cloud:
            return await work(cloud)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[FleetCloud]:
        async with client_of(self.server.url, self.server.credentials, self.tls) as couch:
            yield FleetCloud(couch, self.server.names)


def cloud_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options for the cloud and the login, passed to the command as `place`."""
    return bundled("place", _place, _NAMES, _OPTIONS)(command)


def _place(couchdb: str, credentials: Path | None, ca: Path | None, prefix: str) -> CloudPlace:
    tls = trusting(ca, what="--ca") if couchdb.startswith("https:") else None
    if credentials is not None:
        return CloudPlace(server_of(couchdb, credentials, prefix), tls)
    user = os.environ.get("GROWD_USER")
    password = os.environ.get("GROWD_PASSWORD")
    if not (user and password) and not sys.stdin.isatty():
        refuse("no login: use --credentials FILE, or GROWD_USER and GROWD_PASSWORD", WRONG_USAGE)
    user = user or click.prompt(f"User at {couchdb}", err=True)
    password = password or click.prompt("Password", hide_input=True, err=True)
    return CloudPlace(CloudServer(couchdb.rstrip("/"), (user, password), CloudNames(prefix)), tls)


def _only(wanted: str, rows: Sequence[FleetRow]) -> FleetRow:
    found = [row for row in rows if wanted in (row.device, row.name)]
    if not found:
        known = [name for row in rows for name in (row.device, row.name)]
        refuse(f"there is no device {wanted}{did_you_mean(wanted, known)}")
    if len(found) > 1:
        ids = ", ".join(row.device for row in found)
        refuse(f"several devices are named {wanted}: {ids}; name one by its id")
    return found[0]


def _refuse(url: str, error: CouchError) -> NoReturn:
    if isinstance(error, CouchUnavailableError):
        refuse(f"{url}: {error}", NOT_REACHED)
    refuse_receiver(url, error)
    if isinstance(error, CouchRefusedError) and "incorrect" in error.reason:
        refuse(
            f"{url}: the name or the password is wrong; check --credentials or GROWD_PASSWORD", NOT_ALLOWED
        )
    if isinstance(error, CouchRefusedError) and error.status in _LOGIN:
        refuse(f"{error}; an administrator's login is needed (a reader lists at a receiver)", NOT_ALLOWED)
    if isinstance(error, CouchRefusedError) and error.status == HTTPStatus.NOT_FOUND:
        refuse(f"{error}; `growd cloud receive` makes the databases", REFUSED)
    refuse(error, REFUSED)
