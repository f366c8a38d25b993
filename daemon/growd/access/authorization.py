"""Permissions by the roles of CouchDB's users, with `[http] access = "couchdb"`.

GET, HEAD and services that only read need the permission to read, everything else to operate, administrative
services to administer.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import hdrs, web

from growd.access.sessions import COOKIE, Session, credentials_of
from growd.proxy.gateway import first_segment
from growd.server.client_request import address_of
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.access.attempts import Attempts
    from growd.access.sessions import Credentials, Sessions
    from growd.bus.services import Service
    from growd.config import Config
    from growd.config.web import Access
    from growd.server.client_request import RequestHandler

REALM: Final = "growd"
CHALLENGE: Final = f'Basic realm="{REALM}", charset="UTF-8"'
"""RFC 7617, section 2.1."""
QUIET_CHALLENGE: Final = "Cookie"
"""For pages that send X-CouchDB-WWW-Authenticate: the browser opens no dialog, as with CouchDB."""
SERVER_ADMIN: Final = "_admin"
_SESSION: Final = web.RequestKey("growd.session", Session)
_LOGGED_OUT: Final = "Basic Xzpf"  # "_:_", which clients of CouchDB send to log out
_GIVEN_COOKIE: Final = re.compile(rf"{COOKIE}=[^;\s]")
_log = logging.getLogger(__name__)


class Permission(IntEnum):
    """Each includes the ones before it."""

    READING = 1
    OPERATING = 2
    ADMINISTRATION = 3


ROLES: Final = {
    Permission.READING: "reader",
    Permission.OPERATING: "operator",
    Permission.ADMINISTRATION: "admin",
}
"""What clients are told."""


def role_of(permission: Permission) -> str:
    """The role in the database that has a permission."""
    return f"growd_{ROLES[permission]}"


class _OpenStream(msgspec.Struct, frozen=True, eq=False):
    """A request whose answer does not end."""

    request: web.BaseRequest
    credentials: Credentials


class Authorization:
    """Checks requests to the API by the roles of their users."""

    def __init__(self, section: Access, sessions: Sessions, root: str) -> None:
        self._section = section
        self._sessions = sessions
        self._open = frozenset({f"{root}/health", f"{root}/ready"})
        self._streams: set[_OpenStream] = set()
        self._watch: asyncio.Task[None] | None = None

    async def reconfigure(self, config: Config) -> None:
        """Apply another `[access]` from the next request on; known logins stay valid as before."""
        self._section = self._sessions.section = config.access

    async def close(self) -> None:
        """End background tasks, after all requests have ended."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await self._sessions.close()

    async def admit(self, request: web.BaseRequest, path: str, *, reads: bool) -> None:
        """Check a request, except for administrative services; `reads` is whether it changes nothing.

        `ApiError`: 400, 401, 403, 429 or 503.
        """
        if path in self._open:
            return
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

    async def identify(self, request: web.BaseRequest) -> tuple[str, str]:
        """The user and the role, "" without a valid login.

        `ApiError` 503 if the database cannot say, 429 if the login is locked for a while.
        """
        user, permission = "", Permission.READING if self._section.open_reading else None
        try:
            session = request[_SESSION] = await self._session(request)
        except ApiError as refusal:
            if refusal.status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
                raise
        else:
            user = session.name
            permission = max(filter(partial(self._permits, session), Permission), default=permission)
        return user, "" if permission is None else ROLES[permission]

    def require_leave_to_call(self, request: web.BaseRequest, service: Service) -> None:
        """`ApiError` 403 if the user may not call this service."""
        if service.is_administrative:
            self.require_administrator(request)

    def require_administrator(self, request: web.BaseRequest) -> None:
        """`ApiError` 403 if the user of an admitted request may not administer."""
        self._require(request[_SESSION], Permission.ADMINISTRATION)

    def user_of(self, request: web.BaseRequest) -> str:
        """The user's name, "" without a login."""
        session = request.get(_SESSION)
        return "" if session is None else str(session.name)

    def finish(self, request: web.BaseRequest, path: str, response: web.StreamResponse) -> web.StreamResponse:
        """The answer to send: one word without a reason for open pages, else with a renewed cookie."""
        if path in self._open:
            text = "ok\n" if response.status == HTTPStatus.OK else "no\n"
            return web.Response(text=text, status=response.status)
        session = request.get(_SESSION)
        if session is not None and session.set_cookie and not response.prepared:
            response.headers.add(hdrs.SET_COOKIE, session.set_cookie)
        return response

    @contextmanager
    def lasting(self, request: web.BaseRequest) -> Iterator[None]:
        """Check the login again during the body; a user who may no longer read is disconnected."""
        credentials = credentials_of(request) if _SESSION in request else None
        if credentials is None:
            yield
            return
        stream = _OpenStream(request, credentials)
        self._streams.add(stream)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_streams(), name="access: streams")
        try:
            yield
        finally:
            self._streams.discard(stream)

    async def _watch_streams(self) -> None:
        while self._streams:
            await asyncio.sleep(self._sessions.limits.answer_s)
            for stream in [*self._streams]:
                await self._check_again(stream.request, stream.credentials)

    async def _check_again(self, request: web.BaseRequest, credentials: Credentials) -> None:
        address = address_of(request)
        try:
            self._require(await self._sessions.who(credentials, address), Permission.READING)
        except ApiError as refusal:
            _log.info("closed a stream for %s: %s", address, refusal.sentence)
            if request.transport is not None:
                request.transport.close()

    async def _session(self, request: web.BaseRequest) -> Session:
        credentials = credentials_of(request)
        if credentials is None:
            raise ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", "a login is required")
        return await self._sessions.who(credentials, address_of(request))

    def _permits(self, session: Session, needed: Permission) -> bool:
        enough = {role_of(permission) for permission in Permission if permission >= needed}
        return SERVER_ADMIN in session.roles or not session.roles.isdisjoint(enough)

    def _require(self, session: Session, needed: Permission) -> None:
        if not self._permits(session, needed):
            role, permission = role_of(needed), needed.name.lower()
            sentence = f"{session.name} lacks the role {role}, required for {permission}"
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
        # without the cookie: a valid cookie would hide a guess, and the database may not see it at all
        await self._sessions.who(msgspec.structs.replace(credentials, cookie=""), address_of(request))

    async def _log_in(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._attempts.attempt(address_of(request), "") as attempt:
            response = await self._database.handle(request)
            attempt.has_failed = _has_failed(response)
        return response


def _has_failed(response: web.StreamResponse) -> bool:
    """Whether the database's answer to POST /_session refuses the password."""
    if response.status == HTTPStatus.FOUND:
        # with `next` in the query, a failure is answered with a redirect too
        return not any(map(_GIVEN_COOKIE.match, response.headers.getall(hdrs.SET_COOKIE, ())))
    return response.status == HTTPStatus.UNAUTHORIZED


def _challenging(request: web.BaseRequest, sentence: str) -> ApiError:
    """The refusal that asks for a login."""
    is_page = "X-CouchDB-WWW-Authenticate" in request.headers
    headers = {"WWW-Authenticate": QUIET_CHALLENGE if is_page else CHALLENGE}
    return ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", sentence, headers)
