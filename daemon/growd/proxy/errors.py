"""What can go wrong between growd and the database."""

from __future__ import annotations


class GatewayError(Exception):
    """Base of the gateway's errors."""


class UpstreamUnreachableError(GatewayError):
    """The database accepts no connection: it is down or starting, or growd is stopping."""


class UpstreamBrokenError(GatewayError):
    """The database closed the connection early, or its answer is not valid HTTP."""


class AnswerTooLargeError(GatewayError):
    """The database's answer is larger than the caller accepts."""
