"""Who sends a request: accounts of CouchDB, remembered for a minute."""

from __future__ import annotations

import hashlib
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs
from multidict import CIMultiDict

from growd.access.attempts import Attempts
from growd.access.authorization import CHALLENGE
from growd.access.sessions import Session, SessionLimits, Sessions, credentials_of
from growd.config.web import Access
from growd.proxy.gateway import DatabaseAnswer
from growd.server.client_request import address_of
from growd.server.errors import ApiError
from growd.store.couch_answers import unavailable_as
from growd_cloud.accounts import ROLE
from growd_cloud.months import NOT_OF_A_DEVICE

if TYPE_CHECKING:
    from collections.abc import Callable

    import aiohttp

    from growd.server.client_request import ClientRequest
    from growd_cloud.quorum import Quorum

REMEMBERED_S: Final = 60.0
FREE_OF_ADDRESS: Final = 2_000
"""Failed logins of one address, which many devices may share. One account still has to wait after four."""

_LIMITS: Final = SessionLimits(
    remembered=50_000,
    at_once=16,
    waiting=1_024,
    answer_s=REMEMBERED_S,
    outage_s=REMEMBERED_S,
    question_s=30.0,
)
_READERS: Final = frozenset({"reader", "_admin"})
_DEVICE_DIGITS: Final = 12


class Logins:
    """Checks logins with CouchDB (GET /_session, Basic). A revoked account is refused a minute later.

    A node that is parted from the others may lack an account, so none is refused without the quorum.
    """

    def __init__(
        self, http: aiohttp.ClientSession, url: str, quorum: Quorum, monotonic: Callable[[], float]
    ) -> None:
        attempts = Attempts(monotonic, FREE_OF_ADDRESS)
        self._http = http
        self._url = url
        self._quorum = quorum
        self._secret = os.urandom(32)
        self._sessions = Sessions(self._ask, Access(), attempts, monotonic, _LIMITS)

    async def close(self) -> None:
        """End all questions."""
        await self._sessions.close()

    async def device(self, request: ClientRequest) -> str:
        """The device that sends a request. `ApiError` for other accounts."""
        session = await self._session(request)
        if ROLE not in session.roles or len(session.name) != _DEVICE_DIGITS:
            sentence = f"{session.name} {NOT_OF_A_DEVICE}"
            raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", sentence)
        return session.name

    async def reader(self, request: ClientRequest) -> str:
        """The reader or administrator who sends a request. `ApiError` for other accounts."""
        session = await self._session(request)
        if not session.roles & _READERS:
            sentence = f"{session.name} needs the role reader"
            raise ApiError(HTTPStatus.FORBIDDEN, "forbidden", sentence)
        return session.name

    async def anybody(self, request: ClientRequest) -> Session:
        """The account that sends a request."""
        return await self._session(request)

    async def _session(self, request: ClientRequest) -> Session:
        credentials = credentials_of(request)
        if credentials is None or not credentials.user:
            raise _unauthorized("a login with user and password (Basic) is needed")
        try:
            return await self._sessions.who(credentials, address_of(request))
        except ApiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise _unauthorized(error.sentence) from None
            raise

    async def _ask(self, headers: dict[str, str]) -> DatabaseAnswer:
        """CouchDB locks an account at an address: here each password has its own.

        So wrong passwords, also at another receiver, do not lock out the right one. `Attempts` slows guesses.
        """
        login = headers.get(hdrs.AUTHORIZATION, "").encode(errors="surrogateescape")
        address = hashlib.blake2b(login, key=self._secret, digest_size=16).hexdigest()
        sent = headers | {hdrs.X_FORWARDED_FOR: address}
        with unavailable_as("GET /_session", _LIMITS.question_s):
            async with self._http.get(f"{self._url}/_session", headers=sent, allow_redirects=False) as answer:
                found = DatabaseAnswer(answer.status, CIMultiDict(answer.headers), await answer.read())
        if found.status == HTTPStatus.UNAUTHORIZED:
            await self._quorum.check()
        return found


def _unauthorized(sentence: str) -> ApiError:
    headers = {"WWW-Authenticate": CHALLENGE}
    return ApiError(HTTPStatus.UNAUTHORIZED, "unauthorized", sentence, headers)
