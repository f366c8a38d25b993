"""The webhook, against a real server: content, signature and answers."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from growd.alerts.channels.webhook import DELIVERY, SIGNATURE, Webhook
from growd.alerts.dispatch import DeliveryError
from growd.alerts.messages import Alert, AlertMessage, Entry, Place, Sender
from growd.alerts.rules import AlertPhase
from support.tls_door import CA_FILE, server_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

TIME = 1_700_000_000.0
SENDER = Sender("chamber", "0123456789ab")
ALERT = Alert(
    "a1", "hot", "out_of_band", "critical", "environment_1", "it is hot", TIME - 700, TIME,
    Place("environment_1", "", "air_temperature", 31.2, 30.0, "degC"),
)  # fmt: skip
START = AlertMessage((Entry(AlertPhase.START, ALERT),))


@dataclass
class Receiver:
    status: int = 204
    url: str = ""
    got: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        self.got.append((request.headers, await request.read()))
        headers = {"Location": "/elsewhere"} if self.status in (301, 307) else {}
        return web.Response(status=self.status, headers=headers)


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    runner = web.ServerRunner(web.Server(receiver.take))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    scheme = "https" if tls else "http"
    receiver.url = f"{scheme}://localhost:{runner.addresses[0][1]}/alerts"
    try:
        yield receiver
    finally:
        await runner.cleanup()


def webhook(url: str, **options: str) -> Webhook:
    context = ssl.create_default_context(cafile=CA_FILE)
    return Webhook(url, SENDER, lambda: TIME, context=context, **options)


async def test_it_posts_json_with_all_fields_signed_and_with_a_token():
    async with receiving() as receiver:
        name = await webhook(receiver.url, secret="sécret", token="t0ken").send(START)
    ((headers, body),) = receiver.got
    digest = hmac.new("sécret".encode(), body, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE] == f"sha256={digest}"
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["Content-Type"] == "application/json"
    document = json.loads(body)
    assert document["id"] == headers[DELIVERY] == name
    assert document["sent"].startswith("2023-11-1")
    assert document["sent"][-6] in "+-"  # the offset from UTC
    member = document.pop("alerts")[0]
    assert sorted(document) == [
        "device_id", "host", "id", "late_since", "left_out", "sent", "test", "text", "version",
    ]  # fmt: skip
    since = member.pop("since")
    assert since.startswith("2023-11-1")
    assert member == {
        "id": "a1", "phase": "start", "rule": "hot", "kind": "out_of_band", "severity": "critical",
        "subject": "environment_1", "environment": "environment_1", "device": "",
        "variable": "air_temperature", "value": 31.2, "limit": 30.0, "unit": "degC", "text": "it is hot",
        "now": "", "ended": None, "lasted_s": None, "acknowledged": False,
    }  # fmt: skip


async def test_a_late_message_without_secrets_says_so_and_counts_the_dropped_alerts():
    async with receiving() as receiver:
        await webhook(receiver.url).send(AlertMessage(START.entries, late_since=TIME - 600, left_out=3))
    ((headers, body),) = receiver.got
    assert not {SIGNATURE, "Authorization"} & headers.keys()
    document = json.loads(body)
    assert document["left_out"] == 3
    assert document["late_since"] is not None
    assert document["text"].startswith("This message is late: it could not be sent since 2023-11-1")
    assert document["text"].endswith("3 more alerts were dropped meanwhile, since too many waited.")


@pytest.mark.parametrize(
    ("status", "is_refusal"), [(301, True), (307, True), (401, True), (404, True), (429, False), (500, False)]
)
async def test_any_other_answer_is_an_error_and_redirections_are_not_followed(status: int, is_refusal: bool):  # noqa: FBT001
    async with receiving() as receiver:
        receiver.status = status
        with pytest.raises(DeliveryError, match=f"answers with status {status}") as error:
            await webhook(receiver.url, token="t0ken").send(START)
    assert error.value.is_refusal is is_refusal
    assert len(receiver.got) == 1


async def test_the_certificate_is_verified():
    async with receiving(server_context()) as receiver:
        await webhook(receiver.url).send(START)
        stranger = Webhook(receiver.url, SENDER, lambda: TIME, context=ssl.create_default_context())
        with pytest.raises(DeliveryError, match=r"(?i)certificate"):
            await stranger.send(START)
    assert len(receiver.got) == 1


async def test_an_unreachable_server_is_reported(own_port: int):
    with pytest.raises(DeliveryError, match="the webhook can't be reached: Connection refused"):
        await webhook(f"http://localhost:{own_port}/alerts").send(START)
