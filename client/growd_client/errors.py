"""The errors of the client. Each message is a sentence for people."""

from __future__ import annotations


class GrowdError(Exception):
    """A request failed. The message says where and why."""


class UsageError(GrowdError):
    """An invalid address, login, certificate or argument. Nothing was sent."""


class NotReachedError(GrowdError):
    """No answer, an answer too late, or not from growd. A change may have been made or not."""


class RefusedError(GrowdError):
    """growd refused the request: HTTP `status` and error `code`, such as "invalid_value"."""

    def __init__(self, sentence: str, status: int, code: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


class NotFoundError(RefusedError):
    """The name is unknown, or the topic has no message yet (`code` "no_message")."""


class NotAllowedError(RefusedError):
    """The login is missing or wrong, or lacks the right."""


class UnavailableError(RefusedError):
    """growd or its database can't do it now. Ask again after `retry_after_s` seconds, None if unknown."""

    def __init__(self, sentence: str, status: int, code: str, retry_after_s: float | None) -> None:
        super().__init__(sentence, status, code)
        self.retry_after_s = retry_after_s
