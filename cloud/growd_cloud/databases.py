"""The databases of the cloud: made ahead, with their access."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from growd.runtime.clock import Clock
    from growd.store.couch import Couch
    from growd_cloud.months import CloudNames

INTERVAL_S: Final = 3_600.0  # between looks for a new month
_USERS: Final = "_users"
_log = logging.getLogger(__name__)


def _access_for(*roles: str) -> dict[str, Any]:
    """A document `_security`: administrators, and members with these roles."""
    return {
        "admins": {"names": [], "roles": ["_admin"]},
        "members": {"names": [], "roles": list(roles) or ["_admin"]},
    }


class CloudDatabases:
    """Makes databases that are missing. All methods raise `CouchError`."""

    def __init__(self, couch: Couch, names: CloudNames, clock: Clock) -> None:
        self.names = names
        self._couch = couch
        self._clock = clock
        self._known: set[str] = set()

    async def prepare(self) -> list[str]:
        """Make what is needed this month and the next; the databases that were missing.

        Sets `_security` of each. That of `recipes` stays if somebody has set it: devices may also replicate
        without a receiver.
        """
        names = self.names
        made = [_USERS] if await self._couch.create(_USERS) else []
        made += [each for each in (names.devices, names.checkpoints) if await self._make(each)]
        if await self._make(names.recipes, "reader", "author", keeps=True, q=1):
            made.append(names.recipes)
        return made + [each for each in names.series(self._clock.time()) if await self.ensure(each)]

    async def ensure(self, database: str) -> bool:
        """Make a database of points or events if it is missing; whether it was."""
        if database in self._known:
            return False
        is_new = await self._make(database, "reader", partitioned=True)
        self._known.add(database)
        return is_new

    def forget(self, database: str) -> None:
        """CouchDB does not know it: the next `ensure` makes it again."""
        self._known.discard(database)

    async def run(self) -> None:
        """Make the databases of the next month in time, until cancelled."""
        while True:
            for database in self.names.series(self._clock.time()):
                await self.ensure(database)
            await self._clock.sleep(INTERVAL_S)

    async def _make(self, database: str, *roles: str, keeps: bool = False, **options: Any) -> bool:
        is_new = await self._couch.create(database, **options)
        security, present = _access_for(*roles), await self._couch.security(database)
        if present != security and not (keeps and _is_set(present)):
            await self._couch.put_security(database, security)
        if is_new:
            _log.info("made the database %s", database)
        return is_new


def _is_set(security: dict[str, Any]) -> bool:
    """Whether somebody has given others than administrators access."""
    members = security.get("members", {})
    return bool(members.get("names") or set(members.get("roles", ())) - {"_admin"})
