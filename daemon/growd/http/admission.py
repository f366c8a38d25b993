"""Which connections there may be, and what all of them together may keep waiting."""

from __future__ import annotations

import logging
import resource
from collections import OrderedDict
from typing import Final, Protocol

MAX_HEADS: Final = 8 * 1024 * 1024  # bytes of all heads that are not complete
RUNNING_AHEAD: Final = 64  # connections that may have more than a little waiting
LINGERING: Final = 64  # clients that were refused and may take their time to read why
OTHER_FILES: Final = 256  # that the daemon has open besides its connections, and what is being accepted
_log = logging.getLogger(__name__)


class Client(Protocol):
    """A connection, as far as it is told to go."""

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
    that is turned away has nothing. It is turned away only if all the others are being answered.
    """

    def __init__(self, connections: int) -> None:
        self.most = _room_for(connections)
        self.connections: set[Client] = set()
        self.heads = 0  # bytes of heads that are not complete
        self._idle: OrderedDict[Client, None] = OrderedDict()  # by when they began to wait for a request
        self._heads: dict[Client, int] = {}
        self._ahead: OrderedDict[Client, None] = OrderedDict()  # by when they got on last
        self._lingering: set[Client] = set()
        self._is_full = False

    def admit(self, client: Client) -> bool:
        """Count it in, if there is room or room can be made."""
        if len(self.connections) >= self.most and not self._close_idlest():
            if not self._is_full:
                _log.warning("all %d connections are being answered; others are refused", self.most)
                self._is_full = True
            return False
        self.connections.add(client)
        self._idle[client] = None
        return True

    def forget(self, client: Client) -> None:
        self.connections.discard(client)
        self._idle.pop(client, None)
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
        if len(self._ahead) > RUNNING_AHEAD:
            stuck, _ = self._ahead.popitem(last=False)
            stuck.abort()

    def has_caught_up(self, client: Client) -> None:
        self._ahead.pop(client, None)

    def may_linger(self, client: Client) -> bool:
        """Whether it may take its time to read that it is refused; there is not time for any number."""
        if len(self._lingering) >= LINGERING:
            return False
        self._lingering.add(client)
        return True

    def is_lingering(self, client: Client) -> bool:
        return client in self._lingering

    def _close_idlest(self) -> bool:
        """Close the connection that has waited for longest. False if none waits."""
        if not self._idle:
            return False
        client, _ = self._idle.popitem(last=False)
        self.connections.discard(client)
        client.force_close()
        return True


def _room_for(connections: int) -> int:
    """As many as the limit of open files leaves room for: each may need one to the database, too."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = max(1, (files - OTHER_FILES) // 2)
    if files == resource.RLIM_INFINITY or room >= connections:
        return connections
    _log.warning("%d open files allow %d connections, not %d (see ulimit -n)", files, room, connections)
    return room
