"""Alerts by e-mail (SMTP, RFC 5321; the messages are RFC 5322)."""

from __future__ import annotations

import email.policy
import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING, Final

import aiosmtplib

from growd.alerts.dispatch import DeliveryError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from growd.alerts.messages import AlertMessage, Sender

_log = logging.getLogger(__name__)

_PERMANENT: Final = 500
MOST_REFERENCES: Final = 20
LONGEST_SUBJECT: Final = 200


@dataclass(frozen=True)
class MailServer:
    """The mail server. `security` is "starttls", "tls" or "none"; without `user` there is no login."""

    host: str
    port: int
    security: str
    context: ssl.SSLContext
    timeout_s: float
    user: str = ""
    password: str = ""


class Email:
    """Sends each message to all recipients; repeats and ends refer to the mail that started the alert."""

    def __init__(
        self,
        server: MailServer,
        from_address: str,
        recipients: tuple[str, ...],
        sender: Sender,
        now: Callable[[], float],
    ) -> None:
        self._server = server
        self._from = from_address
        self._recipients = recipients
        self._sender = sender
        self._now = now

    async def send(self, batch: AlertMessage) -> str:
        """See `AlertChannel`. The name of a message is its Message-ID."""
        server = self._server
        message = self.message(batch)
        try:
            refused, _ = await aiosmtplib.send(
                message,
                sender=self._from,
                recipients=list(self._recipients),
                hostname=server.host,
                port=server.port,
                username=server.user or None,
                password=server.password if server.user else None,
                use_tls=server.security == "tls",
                start_tls=server.security == "starttls",
                tls_context=server.context,
                timeout=server.timeout_s,
                local_hostname=_greeting(self._sender.host),
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            refusals = "; ".join(f"{each.recipient}: {_line(each.message)}" for each in error.recipients)
            is_refusal = all(each.code >= _PERMANENT for each in error.recipients)
            raise DeliveryError(
                f"the mail server refuses all recipients: {refusals}", is_refusal=is_refusal
            ) from None
        except aiosmtplib.SMTPResponseException as error:
            is_refusal = error.code >= _PERMANENT
            raise DeliveryError(
                f"the mail server answers {error.code} {_line(error.message)}", is_refusal=is_refusal
            ) from None
        except (aiosmtplib.SMTPException, ValueError) as error:
            raise DeliveryError(f"can't send the mail: {_line(_reason(error))}") from None
        for recipient, (code, words) in refused.items():
            _log.warning("the mail server refuses the recipient %s: %s %s", recipient, code, _line(words))
        return str(message["Message-ID"])

    def message(self, batch: AlertMessage) -> EmailMessage:
        """The mail. Its Message-ID depends on the content, so that a mail sent twice is recognised."""
        message = EmailMessage(policy=email.policy.SMTP)
        message["From"] = self._from
        message["To"] = ", ".join(self._recipients)
        message["Subject"] = _line(self._sender.subject(batch))[:LONGEST_SUBJECT]
        message["Date"] = format_datetime(datetime.fromtimestamp(self._now(), self._sender.zone or UTC))
        message["Message-ID"] = f"<{batch.id}.{self._sender.device}@growd.invalid>"
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no automatic answers
        if batch.threads:
            message["In-Reply-To"] = batch.threads[0]
            message["References"] = " ".join(batch.threads[:MOST_REFERENCES])
        message.set_content(self._sender.text(batch) + "\n", charset="utf-8")
        return message


def _greeting(host: str) -> str:
    """The name of the client for EHLO: the host name if it is valid."""
    return host if re.fullmatch(r"[A-Za-z0-9.-]+", host) else "localhost"


def _reason(error: Exception) -> str:
    """The error with its cause: "Error connecting" alone is not enough."""
    beneath = str(error.__cause__ or "")
    return f"{error} ({beneath})" if beneath and beneath not in str(error) else str(error)


def _line(text: str) -> str:
    return " ".join(text.split())
