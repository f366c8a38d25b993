"""Alerts over apprise, against real servers: mail with TLS and a login, and a web address."""

import asyncio
import sys
from urllib.parse import quote

import pytest
from aiohttp import web

from growd_alerts.channels import AppriseAlerts
from growd_alerts.dispatch import DeliveryError
from growd_alerts.messages import Alert, AlertMessage, Entry, Sender
from growd_alerts.rules import AlertPhase
from support.http_server import serving_http
from support.leaks import child_processes
from support.mail import PASSWORD, USER, mail_server
from support.tls_door import CA_FILE, server_context

pytestmark = pytest.mark.long

SENDER = Sender("grøwd", "0123456789ab")
TIME = 1_700_000_000.0
ALERT = Alert(
    "a1", "hot", "out_of_band", "critical", "e", "Kammer: 31.2 °C,\r\nBcc: c@example.org", TIME - 700, TIME
)
START = AlertMessage((Entry(AlertPhase.START, ALERT),))


def mail_to(box, scheme="mailto", *, login="", to="a@example.org", ca=""):
    address = f"{scheme}://{login}localhost:{box.port}?from=growd@example.org&to={to}"
    return AppriseAlerts(address, SENDER, ca)


LOGIN = f"{USER}:{quote(PASSWORD, safe='')}@"


@pytest.mark.parametrize(("security", "mode"), [("starttls", ""), ("tls", "&mode=ssl")])
async def test_a_mail_is_sent_encrypted_with_a_login_and_no_text_injects_a_header(security, mode):
    async with mail_server(security, login=True) as box:
        to = f"a@example.org,b@example.org{mode}"
        await mail_to(box, "mailtos", login=LOGIN, to=to, ca=str(CA_FILE)).send(START)
        message, _ = await box.arrived(2)
    assert box.logins[0] == (USER.encode(), PASSWORD.encode())
    assert [each.rcpt_tos for each in box.envelopes] == [["a@example.org"], ["b@example.org"]]
    assert message["Subject"] == "[growd grøwd] critical: Kammer: 31.2 °C, Bcc: c@example.org"
    assert message["Bcc"] is None
    assert "for 11 min 40 s. (rule hot, alert a1)" in message.get_content()


async def test_the_program_finds_the_packages_of_an_installed_growd(monkeypatch):
    monkeypatch.setattr(sys, "executable", sys._base_executable)  # it has no packages of its own
    async with mail_server("none") as box:
        await mail_to(box).send(START)
        assert len(await box.arrived(1)) == 1


@pytest.mark.parametrize(
    ("login", "ca", "security", "reason"),
    [
        (f"{USER}:wr0ng-one@", str(CA_FILE), "starttls", "535"),
        (LOGIN, "", "starttls", "CERTIFICATE_VERIFY_FAILED"),
        (LOGIN, str(CA_FILE), "none", "STARTTLS"),
    ],
)
async def test_a_server_that_refuses_or_is_not_trusted_gets_nothing_and_the_reason_has_no_secret(
    login, ca, security, reason
):
    async with mail_server(security, login=security != "none") as box:
        with pytest.raises(DeliveryError) as caught:
            await mail_to(box, "mailtos", login=login, ca=ca).send(START)
    assert reason in str(caught.value)
    assert not {"wr0ng-one", PASSWORD} & set(str(caught.value).split())
    assert box.messages == []


async def test_a_refused_recipient_is_logged_and_the_others_do_not_get_it_again(caplog):
    async with mail_server() as box:
        box.refused = {"b@example.org"}
        await mail_to(box, to="a@example.org,b@example.org").send(START)
        assert len(box.messages) == 1
        assert "b@example.org" in caplog.text
        with pytest.raises(DeliveryError, match=r"b@example.org"):
            await mail_to(box, to="b@example.org").send(START)


async def test_a_process_ends_with_the_time_limit_of_its_message():
    before = child_processes()
    async with mail_server() as box:
        box.silent = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await mail_to(box).send(START)
    assert child_processes() == before


async def test_a_web_address_gets_title_text_and_severity_and_its_certificate_is_verified():
    got = asyncio.Queue()

    async def take(request):
        got.put_nowait(await request.json())
        return web.Response(status=204)

    async with serving_http(take, tls=server_context()) as url:
        address = f"{url.replace('https://', 'jsons://user:t0ken-secret@')}/p4th-secret"
        await AppriseAlerts(address, SENDER, str(CA_FILE)).send(START)
        with pytest.raises(DeliveryError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await AppriseAlerts(address, SENDER, "").send(START)
    assert "secret" not in str(caught.value)
    message = got.get_nowait()
    assert message["type"] == "failure"
    assert message["title"].startswith("[growd grøwd] critical: ")
    assert got.empty()


async def test_an_address_that_apprise_does_not_take_is_reported():
    with pytest.raises(DeliveryError, match="does not take the address") as caught:
        await AppriseAlerts("nonsense://a-secret", SENDER, "").send(START)
    assert "secret" not in str(caught.value)
