"""Simulated switches behind a real HTTP server, with the faults of real ones."""

import asyncio
import hashlib
import re
import secrets
from contextlib import asynccontextmanager

from aiohttp import encode_basic_auth, web

from growd_hwsim.network_switches import SimulatedSwitch
from support.clock import ManualClock
from support.http_server import serving_http


class Served:
    """A device at `url`. `fault` is "", "slow", "garbage", "echo", "broken" or "moved".

    With `login` it asks for it by `scheme`, "digest" or "basic".
    """

    def __init__(self, protocol, *, login=None, scheme="digest", words=("OFF", "ON")):
        self.clock = ManualClock()
        self.switch = SimulatedSwitch(protocol, self.clock.monotonic, words=words)
        self.fault = ""
        self.asked = []
        self.logins = []
        self.url = ""
        self._login = login
        self._scheme = scheme
        self._nonce = secrets.token_hex(8)
        self._end = asyncio.Event()

    async def answer(self, request):
        self.asked.append(request.raw_path)
        self.logins += request.headers.getall("Authorization", [])
        if self.fault == "slow":
            await self._end.wait()
        if self.fault == "broken":
            return web.Response(status=500)
        if self.fault == "moved":
            return web.Response(status=302, headers={"Location": "/login"})
        if self.fault == "garbage":
            return web.Response(body=b"<html>\xff a camera </html>")
        if self.fault == "echo":
            return web.Response(text=f"no command {request.raw_path}")
        if self._login is not None and not self._is_known(request):
            return web.Response(status=401, headers={"WWW-Authenticate": self._challenge()})
        status, body = self.switch.get(request.raw_path)
        return web.Response(status=status, body=body)

    def release(self):
        self._end.set()

    def _challenge(self):
        if self._scheme == "basic":
            return 'Basic realm="shelly"'
        return f'Digest qop="auth", realm="shelly", nonce="{self._nonce}", algorithm=SHA-256'

    def _is_known(self, request):
        sent = request.headers.get("Authorization", "")
        assert self._login is not None
        if self._scheme == "basic":
            return sent == encode_basic_auth(*self._login[:2])
        given = dict(re.findall(r'(\w+)="?([^",]+)"?', sent))
        secret = _hash(f"{self._login.user}:shelly:{self._login.password}")
        what = _hash(f"{request.method}:{given.get('uri')}")
        parts = (secret, self._nonce, given.get("nc"), given.get("cnonce"), "auth", what)
        return given.get("response") == _hash(":".join(map(str, parts)))


def _hash(text):
    return hashlib.sha256(text.encode()).hexdigest()


@asynccontextmanager
async def served(protocol, **options):
    """A device that answers for the body."""
    device = Served(protocol, **options)
    application = web.Application()
    application.router.add_get("/{path:.*}", device.answer)
    async with serving_http(application) as device.url:
        try:
            yield device
        finally:
            device.release()
