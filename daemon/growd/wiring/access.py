"""Access control as configured: none, or by the users of a CouchDB."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

import msgspec

from growd.config.web_checks import what_is_open

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.access.attempts import Attempts
    from growd.access.authorization import Authorization
    from growd.access.sessions import Sessions
    from growd.config import Config
    from growd.proxy.gateway import DatabaseAnswer, Gateway
    from growd.server.client_request import RequestHandler

_SESSION: Final = "/_session"
_log = logging.getLogger(__name__)


class AccessControl(msgspec.Struct, frozen=True):
    """Checks logins: `authorization` for the API, `check_logins` for requests to the database."""

    authorization: Authorization
    _sessions: Sessions
    _attempts: Attempts

    def check_logins(self, database: RequestHandler) -> RequestHandler:
        """Check logins of requests before `database` handles them."""
        from growd.access.authorization import LoginCheck  # noqa: PLC0415  only with logins

        return LoginCheck(database, self._sessions, self._attempts)


def access_control(
    config: Config, gateway: Gateway, root: str, monotonic: Callable[[], float] = time.monotonic
) -> AccessControl | None:
    """Access control for the API beneath `root` and the database; None where everybody may do everything.

    The log then says what is open.
    """
    http = config.http
    if http.access == "couchdb":
        # only with logins
        from growd.access.attempts import Attempts  # noqa: PLC0415
        from growd.access.authorization import Authorization  # noqa: PLC0415
        from growd.access.sessions import MOST_ANSWER, Sessions  # noqa: PLC0415

        async def ask(headers: dict[str, str]) -> DatabaseAnswer:
            return await gateway.get(_SESSION, headers, most=MOST_ANSWER)

        attempts = Attempts(monotonic)
        sessions = Sessions(ask, config.access, attempts, monotonic)
        return AccessControl(Authorization(config.access, sessions, root), sessions, attempts)
    if http.access == "open" and (warning := what_is_open(config)):
        _log.warning("%s", warning)
    return None
