"""Errors of the store. Each carries its data."""

from __future__ import annotations

import re
from typing import Final

NO_ROOM: Final = "the database has no room on its disk"
DISK_FULL: Final = re.compile(f"enospc|No space left on device|{NO_ROOM}")
"""A full disk, in the errors of CouchDB (Erlang) and of the kernel, which LevelDB repeats."""


class StoreError(Exception):
    """Base of all errors of the store."""


class InvalidPointError(StoreError, ValueError):
    """An invalid data point: `field` names the member, `value` is its value."""

    def __init__(self, field: str, reason: str, value: object) -> None:
        super().__init__(f"data point: {field} {reason}, got {value!r}")
        self.field = field
        self.reason = reason
        self.value = value


class PhotoError(StoreError, ValueError):
    """A file is no photo that the journal takes; the message says why."""


class LocalStoreError(StoreError, OSError):
    """The local file can't be opened, read or written."""


class LogFullError(StoreError):
    """The log of new points has no room until its points move to growd.sqlite3."""


class CouchError(StoreError):
    """Base of the errors of the database."""


class CouchUnavailableError(CouchError, ConnectionError):
    """The database gave no usable answer: trying again may help.

    `status` is None without a complete answer: refused, reset, timed out, cut off.
    """

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class DiskFullError(CouchUnavailableError):
    """The database has no room on its disk."""


class CouchAnswerTooLargeError(CouchUnavailableError):
    """The answer has more bytes than the client reads: ask for less."""


class CouchRefusedError(CouchError, RuntimeError):
    """The database refused the request: `status` is 4xx, `error` and `reason` are from its answer."""

    def __init__(self, sentence: str, status: int, error: str, reason: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.error = error
        self.reason = reason


class CouchConflictError(CouchError, RuntimeError):
    """Another client wrote the document at the same moment."""

    def __init__(self, document_id: str) -> None:
        super().__init__(f"{document_id} was changed by another client meanwhile")


class RollupError(StoreError):
    """A rollup can't be written, or what the database has of rollups can't be used."""


class DesignFileError(StoreError, ValueError):
    """A source file of design documents or sample recipes is missing or can't be read."""


class EmbeddedDatabaseError(StoreError, RuntimeError):
    """The embedded database did not start, or ended."""


class PageError(StoreError):
    """The database's answer is not the page of a view that was asked for."""


class PageTooLargeError(StoreError):
    """The database's answer has more bytes than the caller allowed."""


class PartFileError(StoreError):
    """A file can't be written or resumed; the message says why, and what to do."""
