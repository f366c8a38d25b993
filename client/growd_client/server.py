"""What a client knows of its server, and what it says of failed requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import msgspec

from growd_client.errors import (
    GrowdError,
    NotAllowedError,
    NotFoundError,
    NotReachedError,
    RefusedError,
    UnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd_client.address import Address, Login
    from growd_client.request import ClientCall

T = TypeVar("T")

ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Limit of one answer."""
_LOGIN_REFUSALS: Final = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_OWNED: Final = {"read_only", "not_open"}  # codes of 403 that no login changes
_DATABASE_REFUSALS: Final[dict[int, tuple[type[RefusedError], str]]] = {
    401: (NotAllowedError, " ({login} of an account that may read it)"),
    403: (NotAllowedError, " (its _security names who may read it, see docs/access.md)"),
    404: (NotFoundError, " ({prefix} must be [couchdb] prefix of growd)"),
}
_LATER: Final = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}


class Hints(msgspec.Struct, frozen=True):
    """What to do about an error, in the words of this kind of client."""

    url: str = "the URL"
    address: str = "url or GROWD_URL names another address"
    login: str = "user and password"
    prefix: str = "prefix"
    ca: str = "name the file of a certificate to trust with ca"


class RefusalBody(msgspec.Struct):
    """The body of a refused request."""

    ERROR: str = ""
    error: str = ""
    reason: str = ""


def refusal_of(body: bytes) -> RefusalBody:
    """Empty if another program wrote the body."""
    try:
        return msgspec.json.decode(body, type=RefusalBody)
    except msgspec.DecodeError:
        return RefusalBody()


class Server(msgspec.Struct, frozen=True):
    """The address and the login of a client, its time limit and its hints; makes the errors of requests."""

    address: Address
    login: Login | None
    timeout_s: float
    hints: Hints = Hints()

    def target(self, path: str) -> str:
        """The path of a request; one without a leading slash is below growd's."""
        return path if path.startswith("/") else f"{self.address.path}/{path}"

    def place(self, call: ClientCall[Any]) -> str:
        """The path of a call."""
        return self.in_database(call.target) if call.of_database else self.target(call.target)

    def in_database(self, path: str) -> str:
        """The path of a request to the database; `path` is relative to its root."""
        return f"{self.address.path.rpartition('/')[0]}/{path}"

    def answer(self, call: ClientCall[T], status: int, body: bytes, headers: Mapping[str, str]) -> T:
        """The answer to a call. Raises `GrowdError`."""
        if call.of_database and status >= HTTPStatus.BAD_REQUEST:
            raise self._database_refusal(call, status, body, headers)
        if call.unknown and status == HTTPStatus.NOT_FOUND and refusal_of(body).ERROR:
            raise NotFoundError(call.unknown, status, "not_found")
        is_refused = call.service and status == HTTPStatus.BAD_REQUEST and b'"success"' in body
        if status != HTTPStatus.OK and not (is_refused or call.of_database):
            raise self.refusal(status, body, headers)
        try:
            return call.decode(body)
        except msgspec.DecodeError as error:
            raise self.other_program(str(error)) from None

    def refusal(self, status: int, body: bytes, headers: Mapping[str, str]) -> GrowdError:
        """The error of an answer with this status."""
        refusal = refusal_of(body)
        is_of_couchdb = bool(refusal.error) and not refusal.ERROR
        if status in _LOGIN_REFUSALS and refusal.error not in _OWNED and not is_of_couchdb:
            return NotAllowedError(self._not_allowed(status, refusal.reason), status, refusal.error)
        if not refusal.ERROR:
            hint = ""
            if status == HTTPStatus.NOT_FOUND:
                hint = f"; if [http] name is NAME there, use {self.hints.url} {self.address.root}/_NAME"
            what = ", as CouchDB answers" if is_of_couchdb else ""
            return NotReachedError(
                f"a program other than growd answers at {self.address} (HTTP status {status}{what}){hint}"
            )
        if status == HTTPStatus.NOT_FOUND:
            return NotFoundError(refusal.ERROR, status, refusal.error)
        if status in _LATER:
            after = headers.get("Retry-After", "")
            seconds = float(after) if after.isdecimal() else None
            return UnavailableError(refusal.ERROR, status, refusal.error, seconds)
        return RefusedError(refusal.ERROR, status, refusal.error)

    def silent(self) -> NotReachedError:
        return NotReachedError(
            f"no daemon answers at {self.address}: is growd running? ({self.hints.address})"
        )

    def late(self, limit_s: float) -> NotReachedError:
        return NotReachedError(f"the daemon did not answer at {self.address} within {limit_s:g} s")

    def other_program(self, detail: str) -> NotReachedError:
        return NotReachedError(f"a program other than growd answers at {self.address} ({detail})")

    def too_long(self) -> NotReachedError:
        return NotReachedError(f"the answer of {self.address} is longer than {ANSWER_BYTES >> 20} MiB")

    def unresolved(self, why: str | None) -> NotReachedError:
        return NotReachedError(f"the name {self.address.host} can't be resolved: {why}")

    def untrusted(self, why: str) -> NotReachedError:
        return NotReachedError(f"the certificate of {self.address} is not trusted: {why}; {self.hints.ca}")

    def handshake_failed(self) -> NotReachedError:
        return NotReachedError(f"the TLS handshake with {self.address} failed; is it http?")

    def _database_refusal(
        self, call: ClientCall[Any], status: int, body: bytes, headers: Mapping[str, str]
    ) -> GrowdError:
        """Names the database, which has its own rules of who may read it."""
        refusal = refusal_of(body)
        if refusal.ERROR or not refusal.reason:
            return self.refusal(status, body, headers)
        kind, hint = _DATABASE_REFUSALS.get(status, (RefusedError, ""))
        database = unquote(call.target.partition("/")[0])
        hint = hint.format(login=self.hints.login, prefix=self.hints.prefix)
        return kind(f"the database {database}: {refusal.reason}{hint}", status, refusal.error)

    def _not_allowed(self, status: int, reason: str) -> str:
        is_unknown = status == HTTPStatus.UNAUTHORIZED
        who = " without a login" if is_unknown else ""
        if self.login is not None:
            who = f" as {self.login.user}"
        hint = f" ({self.hints.login})" if self.login is None and is_unknown else ""
        return f"{self.address} does not allow this{who}{': ' if reason else ''}{reason}{hint}"
