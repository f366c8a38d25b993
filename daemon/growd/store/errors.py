"""What can go wrong between a data point and the database. Each error carries its data."""

from __future__ import annotations


class StoreError(Exception):
    """Base of all errors of the store."""


class InvalidPointError(StoreError, ValueError):
    """A data point that can't be one: `field` names the member, `value` is what it was given."""

    def __init__(self, field: str, reason: str, value: object) -> None:
        super().__init__(f"data point: {field} {reason}, got {value!r}")
        self.field = field
        self.reason = reason
        self.value = value


class LocalStoreError(StoreError, OSError):
    """The local file can't be opened, read or written."""


class LogFullError(StoreError):
    """The log of new points has no room: those it holds have to go elsewhere first."""


class CouchError(StoreError):
    """Base of what can go wrong with the database."""


class CouchUnavailableError(CouchError, ConnectionError):
    """The database did not answer, or not in a way that settles anything: trying again may help.

    `status` is None when no whole answer came: refused, reset, timed out, half an answer.
    """

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class CouchRefusedError(CouchError, RuntimeError):
    """The database answered that it will not: `status` is 4xx, `error` and `reason` are its own words."""

    def __init__(self, sentence: str, status: int, error: str, reason: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.error = error
        self.reason = reason


class DesignFileError(StoreError, ValueError):
    """A file that design documents or sample recipes are made from is missing or can't be read."""


class EmbeddedDatabaseError(StoreError, RuntimeError):
    """The embedded database did not start, or ended."""


class PageError(StoreError):
    """The database answered with something else than the page of a view that it was asked for."""


class PageTooLargeError(StoreError):
    """The database's answer has more bytes than the caller allowed."""


class PartFileError(StoreError):
    """A file can't be written, or not gone on with; the sentence says why and what to do."""
