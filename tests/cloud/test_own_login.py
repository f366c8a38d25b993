"""A refused login of the receiver is tried rarely, because CouchDB locks accounts."""

import aiohttp
import pytest
from aiohttp import web

from growd.store.couch import Couch
from growd.store.errors import CouchRefusedError, CouchUnavailableError
from growd_cloud.serving import REFUSED_S, OwnLogin
from support.clock import ManualClock
from support.http_server import serving_http

OWN = ("receiver", "old")


async def test_a_refused_login_is_tried_each_two_minutes_and_others_pass():
    asked = []
    right = aiohttp.encode_basic_auth("device", "right")

    async def answer(request):
        asked.append(request.headers["Authorization"])
        is_right = asked[-1] == right or is_back
        return web.json_response({}, status=200 if is_right else 401)

    clock, is_back = ManualClock(), False
    async with (
        serving_http(answer) as url,
        aiohttp.ClientSession(middlewares=(OwnLogin(OWN, clock.monotonic),)) as session,
    ):
        couch, device = (Couch(session, url, credentials=each) for each in (OWN, ("device", "right")))
        with pytest.raises(CouchRefusedError):
            await couch.info("devices")
        for _ in range(20):
            with pytest.raises(CouchUnavailableError, match="refused the login of receiver"):
                await couch.info("devices")
        assert len(asked) == 1
        assert await device.info("devices") == {}
        await clock.advance(REFUSED_S)
        with pytest.raises(CouchRefusedError):
            await couch.info("devices")
        with pytest.raises(CouchUnavailableError):
            await couch.info("devices")
        is_back = True
        await clock.advance(REFUSED_S)
        assert [await couch.info("devices") for _ in range(3)] == [{}, {}, {}]
    assert len(asked) == 6
