"""Checks of a running CouchDB: whether it answers, accepts the login, and has the settings of growd."""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import re
import socket
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
from yarl import URL

from growd.store.bootstrap import Databases, supports_last
from growd.store.couch import Couch
from growd.store.errors import CouchError, CouchRefusedError, CouchUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

READY_S: Final = 180.0
"""Time limit for the first start; a Pi 3 needs most of a minute."""

_ANSWER_S: Final = 10.0
_PAUSE_S: Final = 1.0
_CONNECT_S: Final = 1.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_OF_THE_ADDRESS: Final = {("chttpd", "port"), ("chttpd", "bind_address")}
_REPAIR: Final = "`sudo growd install --couchdb` writes its settings and accounts again"
_OWN_SETTINGS: Final = "set them in its local.d as couchdb/local.d/growd.ini has them"
_DENIED: Final = (401, 403)


async def wait_for_couchdb(url: str, login: tuple[str, str] | None) -> None:
    """Return when it answers, or after `READY_S`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_S), aiohttp.ClientSession() as session:
            couch = Couch(session, url, credentials=login, timeout=_ANSWER_S)
            while True:
                try:
                    await couch.server()
                except CouchUnavailableError:
                    await asyncio.sleep(_PAUSE_S)
                except CouchError:
                    return
                else:
                    return


class CouchdbFindings(NamedTuple):
    """What is wrong, and what is worth knowing; each is a sentence with its remedy."""

    faults: list[str]
    notes: list[str] = []  # noqa: RUF012  never changed


async def couchdb_findings(
    url: str,
    login: tuple[str, str] | None,
    settings: str,
    databases: Databases | None = None,
    *,
    is_installed: bool = True,
) -> CouchdbFindings:
    """Check a CouchDB; `settings` is the text of growd.ini. `is_installed`: growd has installed it.

    Its settings are checked if the login is an administrator's. The address of one that growd has not
    installed is its owner's choice.
    """
    shown = URL(url).with_user(None)
    async with aiohttp.ClientSession() as session:
        couch = Couch(session, url, credentials=login, timeout=_ANSWER_S)
        try:
            server = await couch.server()
            if not supports_last(server):
                return CouchdbFindings([_too_old(shown, server)])
            has_login = login is not None or URL(url).user is not None
            found = await _setting_findings(couch, settings, has_login=has_login, is_installed=is_installed)
            notes = await _shard_notes(couch, databases or Databases())
        except CouchRefusedError as error:
            return CouchdbFindings([_refused(shown, login, error, is_installed=is_installed)])
        except CouchUnavailableError as error:
            return CouchdbFindings([_unavailable(shown, error, is_installed=is_installed)])
    return CouchdbFindings([*found, *await _address_findings(shown)], notes)


async def _setting_findings(couch: Couch, settings: str, *, has_login: bool, is_installed: bool) -> list[str]:
    try:
        present = await couch.settings()
    except CouchRefusedError as error:
        if error.status not in _DENIED or not has_login:
            raise
        return []  # the login is no administrator's
    return list(_differences(present, settings, is_installed=is_installed))


def _differences(
    present: Mapping[str, Mapping[str, str]], settings: str, *, is_installed: bool
) -> Iterator[str]:
    wanted = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    wanted.read_string(settings)
    different = [
        f"[{section}] {option} is {present.get(section, {}).get(option, 'not set')} instead of {value}"
        for section in wanted.sections()
        for option, value in wanted.items(section)
        if present.get(section, {}).get(option) != value
        and (is_installed or (section, option) not in _OF_THE_ADDRESS)
    ]
    if different:
        remedy = _REPAIR if is_installed else _OWN_SETTINGS
        yield f"CouchDB has other settings than growd's: {', '.join(different)}; {remedy}"


async def _shard_notes(couch: Couch, databases: Databases) -> list[str]:
    """Databases that were made before `q = 1` was set."""
    found = []
    for name in (databases.points, databases.events):
        info = await couch.info(name)
        shards = (info or {}).get("cluster", {}).get("q", 1)
        if shards != 1:
            found.append(
                f"the database {name} is split into {shards} files, since it was made before [cluster] q = 1 "
                "was set; it works, with more writes to the card"
            )
    return found


async def _address_findings(shown: URL) -> list[str]:
    """Whether a CouchDB of this machine can be reached from others."""
    own = await asyncio.to_thread(_own_address)
    if shown.host not in _LOOPBACK or own is None:
        return []
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(own, shown.port)
    except (OSError, TimeoutError):
        return []
    writer.close()
    reachable = (
        f"CouchDB also answers at {own}:{shown.port}, so that other machines reach it past growd; "
        "set [chttpd] bind_address = 127.0.0.1"
    )
    return [reachable]


def _own_address() -> str | None:
    """The address of this machine in its network, None without a network; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # RFC 5737: an address that nobody has
        except OSError:
            return None
        return str(probe.getsockname()[0])


def _too_old(shown: URL, server: Mapping[str, object]) -> str:
    vendor = server.get("vendor")
    name = vendor.get("name") if isinstance(vendor, dict) else None
    version = re.sub(r"[^\w.+-]", "", str(server.get("version", "unknown")))
    return f"{shown} is {name or 'unknown'}, version {version}; growd needs Apache CouchDB 3.5 or newer"


def _refused(
    shown: URL, login: tuple[str, str] | None, error: CouchRefusedError, *, is_installed: bool
) -> str:
    if error.status not in _DENIED:
        return f"CouchDB at {shown} refused a request: {error}"
    if login is None:
        return f"CouchDB at {shown} asks for a login; set [couchdb] credentials_file"
    remedy = _REPAIR if is_installed else "correct the file of [couchdb] credentials_file"
    return f"CouchDB at {shown} refuses the login of {login[0]!r} ({error.reason}); {remedy}"


def _unavailable(shown: URL, error: CouchUnavailableError, *, is_installed: bool) -> str:
    installed = "see `systemctl status growd-couchdb couchdb` and start one of them"
    remedy = installed if is_installed else "start it, or correct [couchdb] url"
    return f"no CouchDB answers at {shown} ({error})" + (f"; {remedy}" if shown.host in _LOOPBACK else "")
