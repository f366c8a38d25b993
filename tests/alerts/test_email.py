"""E-mail, against a real server: with TLS of both kinds, a login, refusals and cut connections."""

from __future__ import annotations

import ssl
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import pytest

from growd.alerts.channels.email import Email, MailServer
from growd.alerts.dispatch import DeliveryError
from growd.alerts.messages import Alert, AlertMessage, Entry, Sender
from growd.alerts.rules import AlertPhase
from support.mail import PASSWORD, USER, mail_server
from support.tls_door import CA_FILE

if TYPE_CHECKING:
    from support.mail import Mailbox

SENDER = Sender("grøwd", "0123456789ab")
TIME = 1_700_000_000.0
ALERT = Alert("a1", "hot", "out_of_band", "critical", "e", "Kammer: 31.2 °C, über 30 °C", TIME - 700, TIME)
START = AlertMessage((Entry(AlertPhase.START, ALERT),))


def email_to(
    box: Mailbox,
    security: str = "none",
    *,
    password: str = "",
    recipients: tuple[str, ...] = ("a@example.org",),
) -> Email:
    context = ssl.create_default_context(cafile=CA_FILE)
    server = MailServer("localhost", box.port, security, context, 20.0, USER if password else "", password)
    return Email(server, "growd@example.org", recipients, SENDER, lambda: TIME)


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_mail_is_sent_encrypted_with_a_login(security: str):
    async with mail_server(security, login=True) as box:
        name = await email_to(
            box, security, password=PASSWORD, recipients=("a@example.org", "b@example.org")
        ).send(START)
        (message,) = await box.arrived(1)
    assert box.logins == [(USER.encode(), PASSWORD.encode())]
    assert box.envelopes[0].mail_from == "growd@example.org"
    assert box.envelopes[0].rcpt_tos == ["a@example.org", "b@example.org"]
    assert message["To"] == "a@example.org, b@example.org"
    assert message["Subject"] == "[growd grøwd] critical: Kammer: 31.2 °C, über 30 °C"
    assert message["Message-ID"] == name
    assert parsedate_to_datetime(message["Date"]).timestamp() == TIME
    text = message.get_content().replace("\r\n", "\n")
    assert "critical: Kammer: 31.2 °C, über 30 °C.\nSince 2023-11-14" in text
    assert "for 11 min 40 s. (rule hot, alert a1)" in text


async def test_later_mails_refer_to_the_first_which_may_be_sent_twice():
    ended = Alert(**{field: getattr(ALERT, field) for field in ALERT.__struct_fields__})
    ended.ended, ended.lasted_s, ended.now = TIME + 60, 760.0, "28 °C"
    async with mail_server() as box:
        email = email_to(box)
        name = await email.send(START)
        assert await email.send(START) == name  # its receiver recognises it
        await email.send(AlertMessage((Entry(AlertPhase.END, ended),), threads=(name,)))
        first, _, second = await box.arrived(3)
    assert second["In-Reply-To"] == second["References"] == first["Message-ID"] == name
    assert second["Message-ID"] != name
    assert second["Subject"] == "[growd grøwd] ended: Kammer: 31.2 °C, über 30 °C"
    assert "for 12 min 40 s. Now: 28 °C." in second.get_content()


async def test_a_wrong_password_is_a_refusal():
    async with mail_server("starttls", login=True) as box:
        with pytest.raises(DeliveryError, match="the mail server answers 535") as error:
            await email_to(box, "starttls", password="wrong").send(START)
    assert error.value.is_refusal
    assert box.messages == []


async def test_a_server_with_another_certificate_gets_nothing():
    async with mail_server("starttls", login=True) as box:
        email = email_to(box, "starttls", password=PASSWORD)
        email._server = MailServer(
            "localhost", box.port, "starttls", ssl.create_default_context(), 20.0, USER, PASSWORD
        )
        with pytest.raises(DeliveryError, match="certificate"):
            await email.send(START)
    assert box.logins == []


async def test_a_server_without_starttls_gets_nothing():
    async with mail_server() as box:
        with pytest.raises(DeliveryError, match=r"(?i)starttls"):
            await email_to(box, "starttls").send(START)
    assert box.messages == []


async def test_a_refused_recipient_does_not_affect_the_others(
    caplog: pytest.LogCaptureFixture,
):
    async with mail_server() as box:
        box.refused = {"b@example.org"}
        await email_to(box, recipients=("a@example.org", "b@example.org")).send(START)
        assert box.envelopes[0].rcpt_tos == ["a@example.org"]
        assert "b@example.org: 550 no such box here" in caplog.text
        with pytest.raises(DeliveryError, match=r"b@example.org: no such box here") as error:
            await email_to(box, recipients=("b@example.org",)).send(START)
    assert error.value.is_refusal


async def test_a_temporary_error_is_no_refusal():
    async with mail_server() as box:
        box.refusal = "451 try again later"
        with pytest.raises(DeliveryError, match="answers 451 try again later") as error:
            await email_to(box).send(START)
    assert not error.value.is_refusal


async def test_a_broken_connection_and_an_unreachable_server_are_reported(
    own_port: int,
):
    async with mail_server(port=own_port) as box:
        box.hang_up = True
        with pytest.raises(DeliveryError, match="can't send the mail"):
            await email_to(box).send(START)
        assert box.attempts == 1
    with pytest.raises((DeliveryError, OSError)):
        await email_to(box).send(START)
    assert box.messages == []


def test_text_can_not_inject_a_header():
    cunning = Alert("a1", "hot", "device_failed", "info", "e", "x\r\nBcc: c@example.org", TIME, TIME)
    server = MailServer("localhost", 25, "none", ssl.create_default_context(), 20.0)
    email = Email(server, "growd@example.org", ("a@example.org",), SENDER, lambda: TIME)
    message = email.message(AlertMessage((Entry(AlertPhase.NOTICE, cunning),)))
    assert message["Bcc"] is None
    assert message["Subject"] == "[growd grøwd] info: x Bcc: c@example.org"
