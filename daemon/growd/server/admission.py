"""How many connections there may be, and how much all unfinished request heads may hold."""

from __future__ import annotations

import logging
import resource
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.server.client_limits import Clients

MAX_HEADS: Final = 8 * 1024 * 1024  # bytes of all unfinished heads
LINGERING: Final = 64  # refused connections that may take a moment to read the refusal
OTHER_FILES: Final = 256  # files that the daemon has open besides its connections
_log = logging.getLogger(__name__)


class Admitted(Protocol):
    """A connection of a client; see `ClientConnection`."""

    client: str | None

    def close(self) -> None: ...
    def refuse_head(self, status: int, code: str, sentence: str) -> None: ...


class Admission:
    """A bounded number of connections, in total and for each client.

    When all are taken, the connection that has been idle for longest makes way. HTTP allows that at any
    time, and clients open another (RFC 9112, section 9.3.1). A new client is refused only if all other
    connections are busy.
    """

    def __init__(self, connections: int, clients: Clients) -> None:
        self.most = _room_for(connections)
        self.clients = clients
        self.connections: set[Admitted] = set()
        self.heads = 0  # bytes of unfinished heads
        self._heads: dict[Admitted, int] = {}
        self._idle: OrderedDict[Admitted, None] = OrderedDict()  # longest idle first
        self._by_client: dict[str, OrderedDict[Admitted, None]] = {}  # longest idle first
        self._lingering: set[Admitted] = set()
        self._is_full = False

    def admit(self, connection: Admitted) -> ApiError | None:
        """Count a new connection, or return why there is no room for it."""
        client = connection.client
        if client is not None and not self._has_share(client):
            sentence = (
                f"{client} has {self.clients.limits.connections} connections open, the maximum per client"
            )
            return ApiError(429, "too_many_connections", sentence, {"Retry-After": "2"})
        if len(self.connections) >= self.most and not self._close_idlest(self._idle):
            if not self._is_full:
                _log.warning("all %d connections are busy; refusing new ones", self.most)
                self._is_full = True
            sentence = f"{self.most} connections are open, which is the maximum"
            return ApiError(503, "too_many_connections", sentence, {"Retry-After": "2"})
        self.connections.add(connection)
        self._idle[connection] = None
        if client is not None:
            self._by_client.setdefault(client, OrderedDict())[connection] = None
        return None

    def forget(self, connection: Admitted) -> None:
        """The connection is closed."""
        self._count_out(connection)
        self._lingering.discard(connection)
        self.hold(connection, 0)
        if self._is_full and len(self.connections) < self.most * 0.9:
            _log.info("accepting new connections again")
            self._is_full = False

    def mark_idle(self, connection: Admitted) -> None:
        """It waits for a request."""
        if connection in self.connections:
            self._idle[connection] = None
            if connection.client is not None:
                self._by_client[connection.client].move_to_end(connection)

    def mark_busy(self, connection: Admitted) -> None:
        """Its request is being answered."""
        self._idle.pop(connection, None)

    def hold(self, connection: Admitted, size: int) -> None:
        """Count the bytes of an unfinished head. Beyond `MAX_HEADS` the largest is refused."""
        self.heads += size - self._heads.pop(connection, 0)
        if size:
            self._heads[connection] = size
        if self.heads > MAX_HEADS:
            max(self._heads, key=self._heads.__getitem__).refuse_head(
                503, "too_many_headers", "too many clients send their headers slowly"
            )

    def may_linger(self, connection: Admitted) -> bool:
        """Whether a refused connection may stay open for a moment; only a few may."""
        if len(self._lingering) >= LINGERING:
            return False
        self._lingering.add(connection)
        return True

    def _has_share(self, client: str) -> bool:
        """Whether a client may open another connection, perhaps in place of an idle one."""
        theirs = self._by_client.get(client, ())
        return len(theirs) < self.clients.limits.connections or self._close_idlest(theirs)

    def _close_idlest(self, among: Iterable[Admitted]) -> bool:
        """Close the connection that has been idle for longest. False if none is idle."""
        idlest = next((connection for connection in among if connection in self._idle), None)
        if idlest is None:
            return False
        self._count_out(idlest)
        idlest.close()
        return True

    def _count_out(self, connection: Admitted) -> None:
        self.connections.discard(connection)
        self._idle.pop(connection, None)
        theirs = self._by_client.get(connection.client or "")
        if theirs is not None:
            theirs.pop(connection, None)
            if not theirs:
                del self._by_client[connection.client or ""]


def _room_for(connections: int) -> int:
    """As many as the limit of open files allows: each may need a second one, to the database."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = max(1, (files - OTHER_FILES) // 2)
    if files == resource.RLIM_INFINITY or room >= connections:
        return connections
    _log.warning("%d open files allow %d connections, not %d (see ulimit -n)", files, room, connections)
    return room
