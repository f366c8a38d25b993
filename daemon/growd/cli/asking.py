"""The status of a running daemon, asked for over its REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from growd.cli.client import ClientError, NotReachedError
from growd.status.model import Status  # noqa: TC001  msgspec reads it

if TYPE_CHECKING:
    from growd.cli.client import DaemonClient


class _Names(msgspec.Struct):
    results: list[str]


class _Node(msgspec.Struct):
    status: Status


def is_running(client: DaemonClient) -> bool:
    """Whether a daemon answers there, be it with a refusal."""
    try:
        client.get("node", kind=_Names)
    except NotReachedError:
        return False
    except ClientError:
        return True
    return True


def status_of(client: DaemonClient) -> Status:
    """How the daemon there is, in one request. Raises `ClientError` where none answers."""
    return client.get("node", "status", kind=_Node).status
