"""The login of the receiver itself at CouchDB: a refused one is tried rarely."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import hdrs

from growd.store.errors import CouchUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

REFUSED_S: Final = 120.0
"""CouchDB locks an account after five wrong passwords in five minutes, also for the right one."""


class OwnLogin:
    """Middleware of an aiohttp session. After a 401 one request each `REFUSED_S` tries the login again.

    The others raise `CouchUnavailableError`. Requests with another login pass.
    """

    def __init__(self, credentials: tuple[str, str], monotonic: Callable[[], float]) -> None:
        self._header = aiohttp.encode_basic_auth(*credentials)
        self._user = credentials[0]
        self._monotonic = monotonic
        self._next = -math.inf
        self._is_refused = False

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        if request.headers.get(hdrs.AUTHORIZATION) != self._header:
            return await handler(request)
        if self._is_refused:
            now = self._monotonic()
            if now < self._next:
                sentence = (
                    f"CouchDB refused the login of {self._user}; it is tried again each {REFUSED_S:g} s"
                )
                raise CouchUnavailableError(sentence, HTTPStatus.UNAUTHORIZED)
            self._next = now + REFUSED_S
        answer = await handler(request)
        was_refused, self._is_refused = self._is_refused, answer.status == HTTPStatus.UNAUTHORIZED
        if self._is_refused and not was_refused:
            self._next = self._monotonic() + REFUSED_S
        return answer
