"""Who a client is: the answer of CouchDB's `GET /_session` to the client's own login, cached shortly.

Passwords are not stored. The cache is under a keyed hash, with a key of this process.
"""

from __future__ import annotations

import asyncio
import binascii
import hashlib
import logging
import os
import time
from base64 import b64decode
from collections import OrderedDict
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import msgspec
from aiohttp import hdrs

from growd.proxy.gateway import GatewayError
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from growd.access.attempts import Attempts
    from growd.config.web import Access
    from growd.proxy.gateway import DatabaseAnswer

    Ask: TypeAlias = Callable[[dict[str, str]], Awaitable[DatabaseAnswer]]

COOKIE: Final = "AuthSession"
MOST_BYTES: Final = 8 * 1024  # of credentials; a JWT has one or two thousand
MOST_ANSWER: Final = 64 * 1024
REFUSED_S: Final = 5.0  # how long a refusal is cached
RETRY_S: Final = 5.0  # how long to wait before asking again during an outage
_RETRY_AFTER: Final = {"Retry-After": "5"}
_LOCKED_S: Final = 300
_BASIC: Final = "Basic "  # CouchDB is case-sensitive here
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Credentials(msgspec.Struct, frozen=True):
    """A client's login as sent to the database; at least one of the headers is not empty.

    `user` is the name in a Basic login, "" without one.
    """

    authorization: str
    cookie: str
    user: str

    @property
    def headers(self) -> dict[str, str]:
        """For a request to the database."""
        pairs = ((hdrs.AUTHORIZATION, self.authorization), (hdrs.COOKIE, self.cookie))
        return {name: value for name, value in pairs if value}


class Session(msgspec.Struct, frozen=True):
    """A user of the database. `set_cookie` is a renewed cookie for the client."""

    name: str
    roles: frozenset[str]
    set_cookie: str = ""


class _UserContext(msgspec.Struct):
    name: str | None
    roles: list[str]


class _SessionAnswer(msgspec.Struct):
    """The part of the answer that is read; docs.couchdb.org/en/3.5.x/api/server/authn.html#get--_session."""

    user: _UserContext = msgspec.field(name="userCtx")


class SessionLimits(msgspec.Struct, frozen=True):
    """How many valid and invalid logins are remembered, and how many are asked for at once, or wait.

    The database's answer is trusted for `answer_s`, so a deleted user loses access after that time. It may
    take `question_s`: CouchDB is slow on wrong passwords on purpose. While the database does not answer,
    the last good answer stays valid for `outage_s`.
    """

    remembered: int = 1_024
    at_once: int = 4
    waiting: int = 64
    answer_s: float = 30.0
    outage_s: float = 3_600.0
    question_s: float = 10.0


@dataclass(slots=True)
class _Known:
    """A login that was confirmed at `confirmed` and is not checked again before `fresh`."""

    session: Session
    confirmed: float
    fresh: float


class _NoAnswerError(Exception):
    """The database's answer does not say who the user is."""


class _Bounded(OrderedDict[bytes, T], Generic[T]):
    """A bounded cache; the least recently used entry is dropped."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: bytes, value: T) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


_LIMITS: Final = SessionLimits()


class Sessions:
    """Asks the database who clients are, and caches its answers.

    `ask` sends GET /_session with these headers and no others. The same login is asked for once at a time.
    While the database does not answer, the last good answer is valid for `outage_s`; unknown logins get 503.
    """

    def __init__(
        self,
        ask: Ask,
        section: Access,
        attempts: Attempts,
        monotonic: Callable[[], float] = time.monotonic,
        limits: SessionLimits = _LIMITS,
    ) -> None:
        self.section = section
        self._ask = ask
        self.limits = limits
        self._attempts = attempts
        self._monotonic = monotonic
        self._secret = os.urandom(32)
        self._known: _Bounded[_Known] = _Bounded(limits.remembered)
        self._refused: _Bounded[tuple[float, ApiError]] = _Bounded(limits.remembered)
        self._questions: dict[bytes, asyncio.Task[Session | ApiError]] = {}
        # known users do not wait behind unknown ones
        self._turns = asyncio.Semaphore(limits.at_once)
        self._turns_of_known = asyncio.Semaphore(limits.at_once)
        self._is_silent = False

    def __len__(self) -> int:
        """How many entries are cached."""
        return len(self._known) + len(self._refused)

    async def close(self) -> None:
        """End all questions."""
        questions = [*self._questions.values()]
        for question in questions:
            question.cancel()
        if questions:
            await asyncio.wait(questions)

    async def who(self, credentials: Credentials, address: str) -> Session:
        """The user. `ApiError`: 400 or 401 from the database, 429 for too many guesses, else 503."""
        key = self._key(credentials)
        now = self._monotonic()
        known = self._known.get(key)
        if known is not None and now < known.fresh:
            self._known.move_to_end(key)
            return known.session
        refused = self._refused.get(key)
        if refused is not None and now < refused[0]:
            raise refused[1].again()
        question = self._questions.get(key) or self._begin(key, credentials, address, known)
        answer = await asyncio.shield(question)
        if isinstance(answer, ApiError):
            raise answer.again()
        return answer

    def _key(self, credentials: Credentials) -> bytes:
        text = f"{credentials.authorization}\n{credentials.cookie}"
        return hashlib.blake2b(
            text.encode(errors="surrogateescape"), key=self._secret, digest_size=32
        ).digest()

    def _begin(
        self, key: bytes, credentials: Credentials, address: str, known: _Known | None
    ) -> asyncio.Task[Session | ApiError]:
        if known is None and len(self._questions) >= self.limits.waiting:
            sentence = "too many logins are being checked; try again"
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "busy", sentence, _RETRY_AFTER)
        question = asyncio.create_task(
            self._judge(key, credentials, address, known), name=f"login from {address}"
        )
        self._questions[key] = question
        question.add_done_callback(lambda _: self._questions.pop(key, None))
        return question

    async def _judge(
        self, key: bytes, credentials: Credentials, address: str, known: _Known | None
    ) -> Session | ApiError:
        """Ask, within the limits for guesses, and cache the answer."""
        # a confirmed login is no guess: a stranger at the same address must not lock it out
        is_guess = known is None and bool(credentials.user)
        try:
            with self._attempts.attempt(address, credentials.user) if is_guess else nullcontext() as attempt:
                found = await self._ask_within(key, credentials, address, known)
                if attempt is not None:
                    status = found.status if isinstance(found, ApiError) else HTTPStatus.OK
                    attempt.has_failed = status == HTTPStatus.UNAUTHORIZED
                return found
        except ApiError as refusal:
            return refusal

    async def _ask_within(
        self, key: bytes, credentials: Credentials, address: str, known: _Known | None
    ) -> Session | ApiError:
        turns = self._turns if known is None else self._turns_of_known
        # CouchDB counts failures of a login by the last address of this header
        headers = credentials.headers | {hdrs.X_FORWARDED_FOR: address or "unknown"}
        try:
            async with asyncio.timeout(self.limits.question_s), turns:
                found = _read(await self._ask(headers))
        except (GatewayError, OSError, TimeoutError, _NoAnswerError) as error:
            return self._without_answer(known, error)
        if self._is_silent:
            self._is_silent = False
            _log.info("the database answers about logins again")
        now = self._monotonic()
        if isinstance(found, ApiError):
            self._known.pop(key, None)
            self._refused.keep(key, (now + REFUSED_S, found))
        else:
            remembered = msgspec.structs.replace(found, set_cookie="")
            self._known.keep(key, _Known(remembered, now, now + self.limits.answer_s))
        return found

    def _without_answer(self, known: _Known | None, error: Exception) -> Session | ApiError:
        """The last good answer while it is valid, or the refusal."""
        if not self._is_silent:
            self._is_silent = True
            reason = str(error) or f"no answer within {self.limits.question_s:g} s"
            _log.warning(
                "the database does not answer about logins: %s; known logins stay valid for %g s",
                reason,
                self.limits.outage_s,
            )
        now = self._monotonic()
        if known is not None and now < known.confirmed + self.limits.outage_s:
            known.fresh = min(now + RETRY_S, known.confirmed + self.limits.outage_s)
            return known.session
        sentence = "the login can't be checked, since the database is down or starting; try again"
        return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "login_unknown", sentence, _RETRY_AFTER)


def credentials_of(request: web.BaseRequest) -> Credentials | None:
    """The credentials of a request: Authorization and CouchDB's cookie, no other. None without any.

    `ApiError` 400 for headers that CouchDB could read as another login than growd.
    """
    headers = request.headers
    if hdrs.AUTHORIZATION not in headers and hdrs.COOKIE not in headers:
        return None
    given = headers.getall(hdrs.AUTHORIZATION, [])
    if len(given) > 1:
        raise _malformed("there is more than one Authorization header")
    authorization = given[0].strip() if given else ""
    cookie = _session_cookie(headers.getall(hdrs.COOKIE, []))
    if len(authorization) + len(cookie) > MOST_BYTES:
        raise _malformed(f"the credentials are longer than {MOST_BYTES} bytes")
    if not authorization and not cookie:
        return None
    return Credentials(authorization, cookie, _user_of(authorization))


def _session_cookie(headers: list[str]) -> str:
    """CouchDB's cookies, in order. An empty one is left over from a session that ended."""
    cookies = (cookie.strip() for header in headers for cookie in header.split(";"))
    return "; ".join(each for each in cookies if each.startswith(f"{COOKIE}=") and each != f"{COOKIE}=")


def _user_of(authorization: str) -> str:
    """The user's name in a Basic login (RFC 7617), "" if it is another kind."""
    if not authorization.startswith(_BASIC):
        return ""
    try:
        user, colon, _ = b64decode(authorization.removeprefix(_BASIC), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        raise _malformed("Authorization header has invalid base64 value") from None
    return user.decode(errors="backslashreplace") if colon else ""


def _read(answer: DatabaseAnswer) -> Session | ApiError:
    """The user, or the refusal. `_NoAnswerError` if the answer says neither."""
    if answer.status == HTTPStatus.OK:
        try:
            user = msgspec.json.decode(answer.body, type=_SessionAnswer).user
        except (ValueError, RecursionError):
            raise _NoAnswerError("its answer is not about a user") from None
        if not user.name:  # a cookie that has expired, a token of a kind that it does not take
            return _wrong("the login is unknown or has expired")
        return Session(user.name, frozenset(user.roles), _renewed_cookie(answer))
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return _wrong(_reason(answer.body) or "name or password is incorrect")
    if answer.status == HTTPStatus.BAD_REQUEST:
        return _malformed(_reason(answer.body) or "the database can't read this login")
    if answer.status == HTTPStatus.FORBIDDEN:  # its own lock after failures, also for the right password
        sentence = _reason(answer.body) or "the database has locked this login for some minutes"
        headers = {"Retry-After": str(_LOCKED_S)}
        return ApiError(HTTPStatus.TOO_MANY_REQUESTS, "too_many_failures", sentence, headers)
    raise _NoAnswerError(f"it answers with status {answer.status}")


def _reason(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ""
    reason = found.get("reason") if isinstance(found, dict) else None
    return reason if isinstance(reason, str) else ""


def _renewed_cookie(answer: DatabaseAnswer) -> str:
    cookies = answer.headers.getall(hdrs.SET_COOKIE, ())
    return next((cookie for cookie in cookies if cookie.startswith(f"{COOKIE}=")), "")


def _wrong(sentence: str) -> ApiError:
    return ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", sentence)


def _malformed(sentence: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, "bad_request", sentence)
