"""What the commands add to the client: exit statuses, the configured address, hints with options."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from growd_client.address import Address, address_from
from growd_client.errors import NotAllowedError, NotReachedError, RefusedError, UsageError
from growd_client.server import Hints

if TYPE_CHECKING:
    from growd.config import Http
    from growd.config.web import Tls
    from growd_client.connection import DaemonClient
    from growd_client.errors import GrowdError

REFUSED: Final = 1
"""Exit status if the daemon refuses the request, or the configuration is invalid."""
WRONG_USAGE: Final = 2
"""Exit status for a usage error (click's)."""
NOT_REACHED: Final = 3
"""Exit status if no daemon answers, or another program does."""
NOT_ALLOWED: Final = 4
"""Exit status if the login is missing or wrong (HTTP 401), or lacks the right (403)."""
HINTS: Final = Hints(
    url="--url",
    address="--url or GROWD_URL names another address",
    login="--user NAME",
    prefix="--set couchdb.prefix=TEXT",
    ca="name a certificate to trust with --ca FILE",
)
_STATUSES: Final = {UsageError: WRONG_USAGE, NotReachedError: NOT_REACHED, NotAllowedError: NOT_ALLOWED}
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where to reach a daemon that listens there


def exit_status_of(error: GrowdError) -> int:
    """The exit status of a command that this error ends."""
    return _STATUSES.get(type(error), REFUSED)


def address_of(http: Http, url: str | None, tls: Tls | None = None) -> Address:
    """The daemon's address from `url`, or else from the configuration's `http` and `tls`.

    Raises `UsageError` for an invalid address.
    """
    if url is not None:
        return address_from(url, name=http.name, what="--url")
    if not http.port:
        raise UsageError("[http] port is 0 (any free port): name the address that growd printed with --url")
    scheme = "https" if tls is not None and tls.certificate else "http"
    return Address(scheme, _EVERYWHERE.get(http.host, http.host), http.port, f"/_{http.name}")


def ordered(client: DaemonClient, service: str, arguments: dict[str, Any]) -> str:
    """Call a service; returns its message. Raises `GrowdError`, also if it refuses."""
    answer = client.call(service, arguments, kind=dict[str, Any])
    if not answer["success"]:
        raise RefusedError(answer["message"], HTTPStatus.BAD_REQUEST)
    return str(answer["message"])
