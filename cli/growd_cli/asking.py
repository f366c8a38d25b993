"""Requests the status of a running daemon over its REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from growd.status.model import Status  # noqa: TC001  msgspec reads it
from growd_client.errors import GrowdError, NotReachedError

if TYPE_CHECKING:
    from growd_client.connection import DaemonClient


class _Names(msgspec.Struct):
    results: list[str]


class _Node(msgspec.Struct):
    status: Status


def is_running(client: DaemonClient) -> bool:
    """Whether a daemon answers, even with a refusal."""
    try:
        client.get("node", kind=_Names)
    except NotReachedError:
        return False
    except GrowdError:
        return True
    return True


def status_of(client: DaemonClient) -> Status:
    """The status of the daemon, in one request. Raises `GrowdError`."""
    return client.get("node", "status", kind=_Node).status
