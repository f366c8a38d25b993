"""Which connections there may be, and what all of them together may keep waiting."""

from __future__ import annotations

import logging
import resource
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.server.client_limits import Clients

MAX_HEADS: Final = 8 * 1024 * 1024  # bytes of all heads that are not complete
RUNNING_AHEAD: Final = 64  # connections that may have more than a little waiting
LINGERING: Final = 64  # clients that were refused and may take their time to read why
SHARE: Final = 4  # one client may have a quarter of these two
OTHER_FILES: Final = 256  # that the daemon has open besides its connections, and what is being accepted
_log = logging.getLogger(__name__)


class Client(Protocol):
    """A connection, as far as it is told to go."""

    @property
    def client(self) -> str | None:
        """Whom it counts for, None for one without limits of its own."""

    def force_close(self) -> None:
        """Go, as no request is being answered."""

    def abort(self) -> None:
        """Go, whatever is being answered."""

    def give_up_head(self) -> None:
        """Refuse the request whose head is not complete; its bytes count no longer."""


class Admission:
    """A bounded number of connections.

    When all are taken, the one that has waited for a request for longest makes way for a new one: HTTP
    allows that at any time, and clients ask again on another (RFC 9112, section 9.3.1), whereas a new client
    that is turned away has nothing. It is turned away only if all the others are being answered. So it is
    among the connections of one client, who may have as many as `clients` allow.
    """

    def __init__(self, connections: int, clients: Clients) -> None:
        self.most = _room_for(connections)
        self.clients = clients
        self.connections: set[Client] = set()
        self.heads = 0  # bytes of heads that are not complete
        self._idle: OrderedDict[Client, None] = OrderedDict()  # by when they began to wait for a request
        self._shares: dict[str, OrderedDict[Client, None]] = {}  # by when they began to wait or came
        self._heads: dict[Client, int] = {}
        self._ahead: OrderedDict[Client, None] = OrderedDict()  # by when they got on last
        self._lingering: set[Client] = set()
        self._is_full = False

    def admit(self, client: Client) -> ApiError | None:
        """Count it in, if there is room or room can be made; else say why it can't be."""
        if client.client is not None and not self._has_share(client.client):
            sentence = (
                f"{client.client} has {self.clients.limits.connections} connections open, which is the most"
            )
            return ApiError(429, "too_many_connections", f"{sentence} for one client", {"Retry-After": "2"})
        if len(self.connections) >= self.most and not self._close_idlest(self._idle):
            if not self._is_full:
                _log.warning("all %d connections are being answered; others are refused", self.most)
                self._is_full = True
            sentence = f"{self.most} connections are open, which is the most"
            return ApiError(503, "too_many_connections", sentence, {"Retry-After": "2"})
        self.connections.add(client)
        self._idle[client] = None
        if client.client is not None:
            self._shares.setdefault(client.client, OrderedDict())[client] = None
        return None

    def forget(self, client: Client) -> None:
        self._count_out(client)
        self._ahead.pop(client, None)
        self._lingering.discard(client)
        self.holds(client, 0)
        if self._is_full and len(self.connections) < self.most * 0.9:
            _log.info("connections are accepted again")
            self._is_full = False

    def mark_idle(self, client: Client) -> None:
        """It waits for a request."""
        if client in self.connections:
            self._idle[client] = None
            if client.client is not None:
                self._shares[client.client].move_to_end(client)

    def mark_busy(self, client: Client) -> None:
        """Its request is being answered."""
        self._idle.pop(client, None)

    def holds(self, client: Client, size: int) -> None:
        """It has so many bytes of a head that is not complete. If all get too many, who has most goes."""
        self.heads += size - self._heads.pop(client, 0)
        if size:
            self._heads[client] = size
        if self.heads > MAX_HEADS:
            max(self._heads, key=self._heads.__getitem__).give_up_head()

    def runs_ahead(self, client: Client) -> None:
        """It has more than a little waiting behind the request that is being answered. Few clients have any.

        When too many do, the one that has not got on for longest is thrown out: those behind a stream, which
        does not end, rather than those whose requests are answered one after the other.
        """
        self._ahead[client] = None
        self._ahead.move_to_end(client)
        theirs = _theirs(self._ahead, client)
        if len(theirs) > RUNNING_AHEAD // SHARE or len(self._ahead) > RUNNING_AHEAD:
            stuck = theirs[0] if len(theirs) > RUNNING_AHEAD // SHARE else next(iter(self._ahead))
            del self._ahead[stuck]
            stuck.abort()

    def has_caught_up(self, client: Client) -> None:
        self._ahead.pop(client, None)

    def may_linger(self, client: Client) -> bool:
        """Whether it may take its time to read that it is refused; there is not time for any number."""
        theirs = _theirs(self._lingering, client)
        if len(self._lingering) >= LINGERING or len(theirs) >= max(1, LINGERING // SHARE):
            return False
        self._lingering.add(client)
        return True

    def is_lingering(self, client: Client) -> bool:
        return client in self._lingering

    def _has_share(self, name: str) -> bool:
        """Whether a client may have another connection, if need be in place of its own that waits."""
        theirs = self._shares.get(name, ())
        return len(theirs) < self.clients.limits.connections or self._close_idlest(theirs)

    def _close_idlest(self, among: Iterable[Client]) -> bool:
        """Close the connection that has waited for longest. False if none waits."""
        idlest = next((client for client in among if client in self._idle), None)
        if idlest is None:
            return False
        self._count_out(idlest)
        idlest.force_close()
        return True

    def _count_out(self, client: Client) -> None:
        self.connections.discard(client)
        self._idle.pop(client, None)
        theirs = self._shares.get(client.client or "")
        if theirs is not None:
            theirs.pop(client, None)
            if not theirs:
                del self._shares[client.client or ""]


def _theirs(connections: Iterable[Client], client: Client) -> list[Client]:
    """Those of the same client, which has limits of its own."""
    return [each for each in connections if client.client is not None and each.client == client.client]


def _room_for(connections: int) -> int:
    """As many as the limit of open files leaves room for: each may need one to the database, too."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = max(1, (files - OTHER_FILES) // 2)
    if files == resource.RLIM_INFINITY or room >= connections:
        return connections
    _log.warning("%d open files allow %d connections, not %d (see ulimit -n)", files, room, connections)
    return room
