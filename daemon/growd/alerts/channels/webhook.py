"""Alerts posted as JSON to a web address."""

from __future__ import annotations

import hashlib
import hmac
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec

from growd.alerts.dispatch import DeliveryError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from growd.alerts.messages import AlertMessage, Sender

SIGNATURE: Final = "X-Growd-Signature"
"""The header with "sha256=" and the HMAC-SHA256 of the body in hexadecimal, made with the secret."""

DELIVERY: Final = "X-Growd-Delivery"
"""The header with the id of the message, the same if it is sent again."""

_TEMPORARY: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class Webhook:
    """Posts each message to `url`; any 2xx status means success.

    With `secret` messages are signed; `token` is sent as a bearer token. Redirections are not followed, so
    that secrets only go to `url`. `context` verifies the server.
    """

    def __init__(
        self,
        url: str,
        sender: Sender,
        now: Callable[[], float],
        *,
        context: ssl.SSLContext,
        secret: str = "",
        token: str = "",
    ) -> None:
        self._url = url
        self._sender = sender
        self._now = now
        self._context = context
        self._secret = secret
        self._token = token

    async def send(self, batch: AlertMessage) -> str:
        """See `AlertChannel`."""
        body = msgspec.json.encode(self._sender.document(batch, self._now()))
        headers = {"Content-Type": "application/json", "User-Agent": "growd", DELIVERY: batch.id}
        if self._secret:
            digest = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
            headers[SIGNATURE] = f"sha256={digest}"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    self._url, data=body, headers=headers, ssl=self._context, allow_redirects=False
                ) as response,
            ):
                status = response.status
        except aiohttp.ClientError as error:
            raise DeliveryError(f"the webhook can't be reached: {_reason(error)}") from None
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            is_refusal = status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _TEMPORARY
            raise DeliveryError(f"the webhook answers with status {status}", is_refusal=is_refusal)
        return batch.id


def _reason(error: aiohttp.ClientError) -> str:
    """The cause of the error: the messages of aiohttp contain Python objects."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        return (
            os.strerror(number) if number > 0 else str(error.os_error)
        )  # negative ones are of name resolution
    return str(error) or type(error).__name__
