"""A real mail server, with or without TLS and login, that can refuse and stall."""

import asyncio
import email
import email.policy
import warnings
from contextlib import asynccontextmanager

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from support.tls_door import server_context

USER, PASSWORD = "grower", "p@ss/word"


class Mailbox:
    """The received messages; recipients in `refused` are refused, with `silent` nothing is answered."""

    def __init__(self):
        self.port = 0
        self.messages = []
        self.envelopes = []
        self.logins = []
        self.was_encrypted = []
        self.refused = set()
        self.silent = False
        self._news = asyncio.Event()

    async def arrived(self, number):
        """Wait until `number` messages have arrived in total."""
        async with asyncio.timeout(40):
            while len(self.messages) < number:
                self._news.clear()
                await self._news.wait()
        return self.messages

    def authenticate(self, _server, _session, _envelope, _mechanism, data):
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        is_known = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_known, handled=is_known)  # else aiosmtpd answers

    async def handle_RCPT(  # noqa: N802  the name that aiosmtpd calls
        self, _server, _session, envelope, address, _options
    ):
        if self.silent:
            await asyncio.Event().wait()
        if address in self.refused:
            return "550 no such box here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server, session, envelope):  # noqa: N802
        content = envelope.content
        assert isinstance(content, bytes)
        message = email.message_from_bytes(content, policy=email.policy.default)
        self.messages.append(message)  # the policy makes it one
        self.envelopes.append(envelope)
        self.was_encrypted.append(session.ssl is not None)
        self._news.set()
        return "250 taken"


@asynccontextmanager
async def mail_server(security="none", *, login=False):
    """A mail server: with "starttls", "tls" or "none"; with `login` only USER may send."""
    box = Mailbox()
    options = {"hostname": "localhost"}
    if security == "starttls":
        options |= {"tls_context": server_context(), "require_starttls": True}
    if login:
        options |= {
            "authenticator": box.authenticate,
            "auth_required": True,
            "auth_require_tls": security == "starttls",
        }
    protocols = []

    def protocol():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # aiosmtpd does not see that the listener has TLS
            protocols.append(SMTP(box, **options))
        return protocols[-1]

    context = server_context() if security == "tls" else None
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=context)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()
        handlers = [each._handler_coroutine for each in protocols if each._handler_coroutine is not None]
        for each in protocols:
            if each.transport is not None:
                each.transport.abort()
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
