"""Requests to a database server: their parts, and what their answers mean."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from growd.store.errors import DISK_FULL, NO_ROOM, CouchRefusedError, CouchUnavailableError, DiskFullError

if TYPE_CHECKING:
    from collections.abc import Iterator


_TIMED_OUT: Final = 408
_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
_UNREADABLE: Final = object()


@contextmanager
def unavailable_as(request: str, limit_s: float | None) -> Iterator[None]:
    """Raise `CouchUnavailableError` for a request without a complete answer."""
    try:
        yield
    except TimeoutError as error:
        raise CouchUnavailableError(f"the database did not answer {request} within {limit_s:g} s") from error
    except CouchUnavailableError:
        raise  # it is a ConnectionError
    except (aiohttp.ClientError, OSError) as error:
        raise CouchUnavailableError(
            f"no answer from the database to {request}: {connection_failure(error)}"
        ) from error


def connection_failure(error: Exception) -> str:
    """The error in the words of the system; those of aiohttp repeat the address, which is not shown."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        problem = error.certificate_error
        return f"its certificate is invalid: {getattr(problem, 'verify_message', '') or problem}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        return os.strerror(number) if number > 0 else error.os_error.strerror or "no connection"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer is incomplete"
    words = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return words.partition("\n")[0] or type(error).__name__


def checked(request: str, status: int, body: bytes) -> Any:
    """The answer. Raises `CouchUnavailableError` and `CouchRefusedError`."""
    answer = _decoded(body)
    if status >= _SERVER_ERROR and DISK_FULL.search(error_members(answer)[1]):
        sentence = f"{NO_ROOM} ({request} got {status}); make room there"
        raise DiskFullError(sentence, status)
    if status in {_TIMED_OUT, _TOO_MANY} or status >= _SERVER_ERROR:
        raise CouchUnavailableError(
            f"the database answered {request} with {_described(status, answer)}", status
        )
    if not 200 <= status < 300:  # noqa: PLR2004  2xx
        error, reason = error_members(answer)
        sentence = f"the database answered {request} with {_described(status, answer)}"
        raise CouchRefusedError(sentence, status, error, reason)
    if answer is _UNREADABLE:
        raise CouchUnavailableError(f"the database's answer to {request} is not complete JSON")
    return answer


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _UNREADABLE


def error_members(answer: Any) -> tuple[str, str]:
    """CouchDB's `error` and `reason`, of the first of several documents; empty in another form."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict):
        return "", ""
    return str(answer.get("error", "")), str(answer.get("reason", ""))


def _described(status: int, answer: Any) -> str:
    error, reason = error_members(answer)
    return f"{status} {error}: {reason.removesuffix('.')}" if error else str(status)


# Errors that CouchDB gives for one document, and that have another cause (fabric_doc_update.erl).
_TRANSIENT: Final = frozenset({"internal_server_error", "timeout"})


def is_stored(outcome: dict[str, Any]) -> bool:
    """Whether the database has the document; with a conflict, an earlier try has stored it."""
    return "error" not in outcome or outcome["error"] == "conflict" or outcome.get("name") == "conflict"


def is_transient(outcome: dict[str, Any]) -> bool:
    """Whether trying again may help."""
    status = outcome.get("status")  # PouchDB's; CouchDB gives none
    return outcome["error"] in _TRANSIENT or (isinstance(status, int) and status >= _SERVER_ERROR)


def reason_of(outcome: dict[str, Any]) -> str:
    """Why the document was refused."""
    return f"{outcome['error']}: {outcome.get('reason', 'no reason given')}"
