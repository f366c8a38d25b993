"""What can go wrong between the front door and the database."""

from __future__ import annotations


class GatewayError(Exception):
    """Base of the front door's errors."""


class UpstreamUnreachableError(GatewayError, ConnectionError):
    """The database takes no connection: it is down, or starts."""


class UpstreamBrokenError(GatewayError, ConnectionError):
    """The database broke off, or sent what is not HTTP."""


class StaleConnectionError(UpstreamBrokenError):
    """A connection that was kept from an earlier request turned out closed: no byte of an answer came."""


class AnswerTooLargeError(GatewayError):
    """The database's answer is larger than what may be held of it."""


class FeedEndedError(UpstreamUnreachableError):
    """growd stops, and with it the feeds of the database."""


class RequestRefusedError(GatewayError, ValueError):
    """A request that can't be handed on. `status`, `error` and `reason` are those of the answer."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
