"""Who may come in, as the configuration says: nobody is asked, or a CouchDB is."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from growd.config.access import what_is_open

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.api.rest import Api
    from growd.config import Config
    from growd.proxy.gateway import DatabaseAnswer, Gateway
    from growd.server.server import Passage

_SESSION: Final = "/_session"
_log = logging.getLogger(__name__)


def guarded(
    config: Config,
    gateway: Gateway,
    api: Api,
    passage: Passage,
    monotonic: Callable[[], float] = time.monotonic,
) -> Passage:
    """Have `api` judge requests, and logins on their way through `passage`, where the configuration wants it.

    Otherwise nothing stands in the way of a request, and the log says what is open.
    """
    http = config.http
    if http.access == "couchdb":
        # only who asks for logins needs these
        from growd.access.attempts import Attempts  # noqa: PLC0415
        from growd.access.authorization import Authorization, Logins  # noqa: PLC0415
        from growd.access.sessions import MOST_ANSWER, Sessions  # noqa: PLC0415

        async def ask(headers: dict[str, str]) -> DatabaseAnswer:
            return await gateway.get(_SESSION, headers, most=MOST_ANSWER)

        attempts = Attempts(monotonic)
        sessions = Sessions(ask, config.access, attempts, monotonic)
        api.access = Authorization(config.access, sessions, api.root)
        return Logins(passage, sessions, attempts)
    if http.access == "open":
        said = what_is_open(
            http.host,
            is_embedded=not config.couchdb.url,
            client_design_documents=config.couchdb.client_design_documents,
        )
        if said:
            _log.warning("%s", said)
    return passage
