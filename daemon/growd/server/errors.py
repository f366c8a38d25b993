"""Errors of growd's own answers: status, code and sentence, in one JSON form."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiohttp import web

from growd.bus.errors import (
    BusError,
    BusyError,
    CapacityError,
    ClosedError,
    ConflictError,
    InvalidAnswerError,
    InvalidArgumentsError,
    InvalidNameError,
    InvalidValueError,
    NotKeptError,
    NotOpenError,
    ReadOnlyError,
    UnavailableError,
    UndeclaredError,
    UnknownNameError,
)

# The first class that an error is an instance of gives its status and code.
STATUS_OF: Final[tuple[tuple[type[BusError], int, str], ...]] = (
    (UnknownNameError, 404, "not_found"),
    (InvalidNameError, 400, "invalid_name"),
    (InvalidValueError, 400, "invalid_value"),
    (InvalidArgumentsError, 400, "invalid_arguments"),
    (ReadOnlyError, 403, "read_only"),
    (NotOpenError, 403, "not_open"),
    (ConflictError, 409, "conflict"),
    (UndeclaredError, 409, "undeclared"),
    (CapacityError, 507, "capacity"),
    (BusyError, 503, "busy"),
    (NotKeptError, 503, "not_kept"),
    (UnavailableError, 503, "database_unavailable"),
    (ClosedError, 503, "closing"),
    (InvalidAnswerError, 500, "invalid_answer"),
)

_LATER: Final = {"Retry-After": "2"}


class ApiError(Exception):
    """A refusal with its HTTP status, a code for programs and a sentence for people.

    `closes` ends the connection after the answer, without reading the rest of the request.
    """

    def __init__(
        self,
        status: int,
        code: str,
        sentence: str,
        headers: dict[str, str] | None = None,
        *,
        closes: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        self.sentence = sentence
        self.headers = headers
        self.closes = closes

    @classmethod
    def from_bus(cls, error: BusError) -> ApiError:
        for kind, status, code in STATUS_OF:
            if isinstance(error, kind):
                return cls(status, code, str(error), _LATER if kind is BusyError else None)
        return cls(400, "refused", str(error))

    @classmethod
    def without_database(cls, error: Exception) -> ApiError:
        """What needs the database can't be answered now."""
        return cls(503, "database_unavailable", str(error), {"Retry-After": "5"})

    def again(self) -> ApiError:
        """A copy to raise: a raised exception keeps requests and passwords alive through its traceback."""
        return ApiError(self.status, self.code, self.sentence, self.headers, closes=self.closes)

    def response_to(self, request: web.BaseRequest) -> web.Response:
        """The answer. The connection ends after it if the rest of the request is still to come."""
        response = self.response()
        if not request.content.is_eof():
            response.force_close()
        return response

    def response(self) -> web.Response:
        response = web.Response(
            body=msgspec.json.encode(error_fields(self.code, self.sentence)),
            status=self.status,
            headers=self.headers,
            content_type="application/json",
        )
        if self.closes:
            response.force_close()
        return response


def error_fields(code: str, sentence: str) -> dict[str, Any]:
    """`ERROR` is the specification's field; `error` and `reason` are CouchDB's form."""
    return {"ERROR": sentence, "error": code, "reason": sentence}


class CertificateError(ValueError):
    """The certificate or its key can't be used; the sentence says which file, and why."""
