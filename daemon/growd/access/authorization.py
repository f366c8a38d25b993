"""Who may do what beneath the API's root, where `[http] access` is "couchdb".

Reading is GET and HEAD; operating is everything else; a service that is administrative takes an
administrator. The roles are those of users of the database, see `sessions`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from growd.access.sessions import COOKIE, Session, credentials_of
from growd.proxy.gateway import first_segment
from growd.server.client_request import READING, address_of
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.access.attempts import Attempts
    from growd.access.sessions import Credentials, Sessions
    from growd.bus.services import Service
    from growd.config import Config
    from growd.config.access import Access
    from growd.server.client_request import RequestHandler

REALM: Final = "growd"
CHALLENGE: Final = f'Basic realm="{REALM}", charset="UTF-8"'
"""RFC 7617, section 2.1."""
QUIET_CHALLENGE: Final = "Cookie"
"""For pages, which say with X-CouchDB-WWW-Authenticate that a browser shall ask nobody, as CouchDB has it."""
SERVER_ADMIN: Final = "_admin"
_SESSION: Final = web.RequestKey("growd.session", Session)
_LOGGED_OUT: Final = "Basic Xzpf"  # "_:_", with which clients of CouchDB say that they are nobody
_GIVEN_COOKIE: Final = re.compile(rf"{COOKIE}=[^;\s]")
_log = logging.getLogger(__name__)


class Permission(IntEnum):
    """Each includes those before."""

    READING = 1
    OPERATING = 2
    ADMINISTRATION = 3


@dataclass(frozen=True, eq=False)
class _Lasting:
    """A request whose answer does not end."""

    request: web.BaseRequest
    credentials: Credentials


class Authorization:
    """Judges requests to the API by the roles of who asks."""

    def __init__(self, section: Access, sessions: Sessions, root: str) -> None:
        self._section = section
        self._sessions = sessions
        self._open = frozenset({f"{root}/health", f"{root}/ready"})
        self._lasting: set[_Lasting] = set()
        self._watch: asyncio.Task[None] | None = None

    async def reconfigure(self, config: Config) -> None:
        """Go by another `[access]` from the next request on; what is remembered holds as it did."""
        self._section = self._sessions.section = config.access

    async def close(self) -> None:
        """End what is under way; requests have ended before."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await self._sessions.close()

    async def admit(self, request: web.BaseRequest, path: str) -> None:
        """Let a request pass to what is no administration, or refuse: 400, 401, 403, 429 or 503."""
        if path in self._open:
            return
        reads = request.method in READING
        if reads and self._section.open_reading:
            return
        try:
            session = await self._session(request)
        except ApiError as refusal:
            if refusal.status == HTTPStatus.UNAUTHORIZED:
                raise _challenging(request, refusal.sentence) from None
            raise
        self._require(session, Permission.READING if reads else Permission.OPERATING)
        request[_SESSION] = session

    def require_leave_to_call(self, request: web.BaseRequest, service: Service) -> None:
        """Refuse with 403 who was let in and may not call this service."""
        if service.is_administrative:
            self._require(request[_SESSION], Permission.ADMINISTRATION)

    def user_of(self, request: web.BaseRequest) -> str:
        """The name of the user who asks, "" for one who did not have to log in."""
        session = request.get(_SESSION)
        return "" if session is None else str(session.name)

    def finish(self, request: web.BaseRequest, path: str, response: web.StreamResponse) -> web.StreamResponse:
        """What is sent in place of an answer: of what everybody may ask, a word and no reasons.

        And with a cookie that the database renewed, as it would be if the client had asked it itself.
        """
        if path in self._open:
            text = "ok\n" if response.status == HTTPStatus.OK else "no\n"
            return web.Response(text=text, status=response.status)
        session = request.get(_SESSION)
        if session is not None and session.set_cookie and not response.prepared:
            response.headers.add(hdrs.SET_COOKIE, session.set_cookie)
        return response

    @contextmanager
    def lasting(self, request: web.BaseRequest) -> Iterator[None]:
        """For an answer that does not end: who may read no more is cut off, a while after."""
        credentials = credentials_of(request) if _SESSION in request else None
        if credentials is None:
            yield
            return
        lasting = _Lasting(request, credentials)
        self._lasting.add(lasting)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_lasting(), name="access: streams")
        try:
            yield
        finally:
            self._lasting.discard(lasting)

    async def _watch_lasting(self) -> None:
        while self._lasting:
            await asyncio.sleep(self._section.answer_s)
            for lasting in [*self._lasting]:
                await self._judge_again(lasting.request, lasting.credentials)

    async def _judge_again(self, request: web.BaseRequest, credentials: Credentials) -> None:
        address = address_of(request)
        try:
            self._require(await self._sessions.who(credentials, address), Permission.READING)
        except ApiError as refusal:
            _log.info("a stream for %s ends: %s", address, refusal.sentence)
            if request.transport is not None:
                request.transport.close()

    async def _session(self, request: web.BaseRequest) -> Session:
        credentials = credentials_of(request)
        if credentials is None:
            raise ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", "this takes a login")
        return await self._sessions.who(credentials, address_of(request))

    def _require(self, session: Session, needed: Permission) -> None:
        section = self._section
        roles = (section.reader_role, section.operator_role, section.administrator_role)
        if SERVER_ADMIN not in session.roles and session.roles.isdisjoint(roles[needed - 1 :]):
            sentence = f"{session.name} lacks the role {roles[needed - 1]}, which {needed.name.lower()} takes"
            raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", sentence)


class LoginCheck:
    """Lets `database` handle requests, unless they guess passwords.

    A Basic login passes if the database has confirmed it shortly before; the database checks each request
    again. Whether POST /_session was a guess is seen from its answer only.
    """

    def __init__(self, database: RequestHandler, sessions: Sessions, attempts: Attempts) -> None:
        self._database = database
        self._sessions = sessions
        self._attempts = attempts

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        try:
            if hdrs.AUTHORIZATION in request.headers:
                await self._check(request)
            if request.method == "POST" and first_segment(request) == "_session":
                return await self._log_in(request)
        except ApiError as refusal:
            return refusal.response_to(request)
        return await self._database.handle(request)

    async def _check(self, request: web.BaseRequest) -> None:
        credentials = credentials_of(request)
        if credentials is None or not credentials.user or credentials.authorization == _LOGGED_OUT:
            return
        # without the cookie, which would stand in for a guess that is handed on: the database may not get it
        # (Connection: Cookie) or find none in it (within quotes)
        await self._sessions.who(replace(credentials, cookie=""), address_of(request))

    async def _log_in(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._attempts.attempt(address_of(request), "") as attempt:
            response = await self._database.handle(request)
            if not _has_failed(response):
                attempt.is_no_failure()
        return response


def _has_failed(response: web.StreamResponse) -> bool:
    """What the database's answer to POST /_session says of the password."""
    if response.status == HTTPStatus.FOUND:
        # pages are led to another page after a failure too, where the query names one
        return not any(map(_GIVEN_COOKIE.match, response.headers.getall(hdrs.SET_COOKIE, ())))
    return response.status == HTTPStatus.UNAUTHORIZED


def _challenging(request: web.BaseRequest, sentence: str) -> ApiError:
    """The refusal that asks for a login."""
    is_page = "X-CouchDB-WWW-Authenticate" in request.headers
    headers = {"WWW-Authenticate": QUIET_CHALLENGE if is_page else CHALLENGE}
    return ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", sentence, headers)
