"""A server of users and sessions as CouchDB 3.5 is one, over a real socket: who logs in, how it is refused.

It answers `/_session`, `/_users/<id>`, `/_all_dbs` and one setting as CouchDB's documentation and source
(couch_httpd_auth.erl, couch_auth_lockout.erl) say. The tests that use it run against a CouchDB as well.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
import time
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, parse_qsl, unquote

from aiohttp import web

from support.ports import held_port

TIMEOUT_S = 600  # of a session
THRESHOLD = 5  # failures, [chttpd_auth_lockout]
ADMIN = ("admin", "secret")
SECRET = "2f8b3f5c5a5e4f7d9c1b0a6e8d7c6b5a"
CLEARED = "AuthSession=; Version=1; Path=/; HttpOnly"  # the cookie after a logout
PREFIX = "org.couchdb.user:"
WRONG = "Name or password is incorrect."
LOCKED = "Account is temporarily locked due to multiple authentication failures"


class RefusalError(Exception):
    def __init__(self, status, error, reason):
        super().__init__(reason)
        self.response = web.json_response({"error": error, "reason": reason}, status=status)


def session_cookie(user, secret, salt, at):
    """The value of AuthSession that CouchDB gave to this user at that time (seconds since 1970)."""
    said = f"{user}:{at:X}".encode()
    mac = hmac.new((secret + salt).encode(), said, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(said + b":" + mac).decode().rstrip("=")


class SessionServer:
    """`instead` answers in place of it while it is set; `asked` has the headers of each GET /_session."""

    def __init__(self, port):
        self.users = {}
        self.asked = []
        self.instead = None
        self.port = port
        self._failures = {}
        self._runner = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def open(self):
        """Listen, at the same port each time."""
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def close(self):
        """Refuse connections, and end those that are open."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request):
        if request.method == "GET" and request.path == "/_session":
            self.asked.append(dict(request.headers))
        if self.instead is not None:
            return await self.instead(request)
        try:
            user, cookie = self._authenticate(request)
            response = await self._answer(request, user)
        except RefusalError as refusal:
            if refusal.response.status == 401 and request.headers.get("Accept") == "text/html":
                return web.Response(status=302, headers={"Location": "/_utils/session.html"})
            return refusal.response
        if cookie and "Set-Cookie" not in response.headers:
            response.headers["Set-Cookie"] = cookie
        return response

    async def _answer(self, request, user):
        if request.path == "/_session":
            return await self._session(request, user)
        if user is None or "_admin" not in user["roles"]:
            raise RefusalError(401, "unauthorized", "You are not a server admin.")
        if request.path == "/_all_dbs":
            return web.json_response(["_users"])
        if request.path == "/_node/_local/_config/chttpd_auth/secret":
            return web.json_response(SECRET)
        return await self._user_document(request, unquote(request.path).removeprefix(f"/_users/{PREFIX}"))

    async def _session(self, request, user):
        if request.method == "POST":
            return await self._log_in(request)
        if request.method == "DELETE":
            return web.json_response({"ok": True}, headers={"Set-Cookie": CLEARED})
        name, roles = (user["name"], user["roles"]) if user else (None, [])
        info = {"authentication_handlers": ["cookie", "default"]}
        return web.json_response({"ok": True, "userCtx": {"name": name, "roles": roles}, "info": info})

    async def _log_in(self, request):
        text = await request.text()
        if request.content_type == "application/json":
            form = json.loads(text)
        else:
            form = {name: values[0] for name, values in parse_qs(text).items()}
        user = self._with_password(request, form["name"], form["password"])
        query = dict(parse_qsl(request.query_string.replace(";", "&")))  # as mochiweb takes them apart
        if user is None:
            if "fail" in query:
                return web.Response(status=302, headers={"Location": query["fail"], "Set-Cookie": CLEARED})
            raise RefusalError(401, "unauthorized", WRONG)
        cookie = self._cookie_header(form["name"], user["salt"])
        status = 302 if "next" in query else 200
        headers = {"Set-Cookie": cookie} | ({"Location": query["next"]} if "next" in query else {})
        body = {"ok": True, "name": form["name"], "roles": user["roles"]}
        return web.json_response(body, status=status, headers=headers)

    async def _user_document(self, request, name):
        known = self.users.get(name)
        if request.method == "GET":
            if known is None:
                raise RefusalError(404, "not_found", "missing")
            return web.json_response({key: value for key, value in known.items() if key != "password"})
        if (
            known is not None
            and request.query.get("rev", (await _json(request)).get("_rev")) != known["_rev"]
        ):
            raise RefusalError(409, "conflict", "Document update conflict.")
        if request.method == "DELETE":
            del self.users[name]
            return web.json_response({"ok": True})
        document = await _json(request)
        password = document.get("password") or (known or {})["password"]
        salt = secrets.token_hex(16) if "password" in document else (known or {})["salt"]
        self.users[name] = document | {"password": password, "salt": salt, "_rev": secrets.token_hex(16)}
        return web.json_response({"ok": True}, status=201)

    # who asks

    def _authenticate(self, request):
        """The user, and a renewed cookie if there is one. First by cookie, then by Basic."""
        found = re.search(r"(?:^|;)\s*AuthSession=([^;]*)", request.headers.get("Cookie", ""))
        if found is not None and found[1]:
            user, age = self._with_cookie(found[1])
            if user is not None:
                renews = age > TIMEOUT_S * 0.1
                return user, self._cookie_header(user["name"], user["salt"]) if renews else ""
        return self._with_basic(request), ""

    def _with_cookie(self, value):
        try:
            name, at, mac = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).split(b":", 2)
        except (binascii.Error, ValueError):
            reason = "Malformed AuthSession cookie. Please clear your cookies."
            raise RefusalError(400, "bad_request", reason) from None
        user = self._find(name.decode())
        if user is None:
            return None, 0
        right = hmac.new((SECRET + user["salt"]).encode(), name + b":" + at, hashlib.sha256).digest()
        age = time.time() - int(at, 16)
        return (user, age) if age < TIMEOUT_S and hmac.compare_digest(right, mac) else (None, 0)

    def _with_basic(self, request):
        authorization = request.headers.get("Authorization", "")
        if not authorization.startswith("Basic "):
            return None
        try:
            # Erlang's decoder lets white space be
            decoded = base64.b64decode("".join(authorization.removeprefix("Basic ").split()), validate=True)
        except binascii.Error:
            reason = "Authorization header has invalid base64 value"
            raise RefusalError(400, "bad_request", reason) from None
        name, colon, password = decoded.partition(b":")
        if not colon or decoded == b"_:_":
            return None
        user = self._with_password(request, name.decode(), password.decode())
        if user is None:
            raise RefusalError(401, "unauthorized", WRONG)
        return user

    def _with_password(self, request, name, password):
        user = self._find(name)
        if user is None:
            return None
        forwarded = request.headers.get("X-Forwarded-For", "127.0.0.1")
        key = (forwarded.rpartition(",")[2].strip(), name, user["salt"])
        if self._failures.get(key, 0) >= THRESHOLD:
            raise RefusalError(403, "forbidden", LOCKED)
        if hmac.compare_digest(user["password"].encode(), password.encode()):
            return user
        self._failures[key] = self._failures.get(key, 0) + 1
        return None

    def _find(self, name):
        if name == ADMIN[0]:
            return {"name": name, "password": ADMIN[1], "salt": "salt", "roles": ["_admin"]}
        return self.users.get(name)

    def _cookie_header(self, name, salt):
        cookie = SimpleCookie({"AuthSession": session_cookie(name, SECRET, salt, int(time.time()))})
        cookie["AuthSession"].update({"path": "/", "httponly": True, "max-age": str(TIMEOUT_S)})
        return cookie["AuthSession"].OutputString()


async def _json(request):
    text = await request.text()
    return json.loads(text) if text else {}


@asynccontextmanager
async def session_server():
    with held_port() as port:
        server = SessionServer(port)
        await server.open()
        try:
            yield server
        finally:
            await server.close()


def answering(status, body="", **headers):
    """The same answer to everything."""

    async def answer(_):
        return web.Response(status=status, text=body, headers=headers)

    return answer


def holding(release):
    """No answer until `release`."""

    async def answer(_):
        await release.wait()
        return web.Response(status=500)

    return answer
