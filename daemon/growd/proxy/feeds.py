"""Feeds of changes, which growd ends when it stops, so that their clients get a whole answer."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from growd.server.client_request import split_target

if TYPE_CHECKING:
    from aiohttp import web

_LASTING: Final = frozenset({"longpoll", "continuous", "eventsource"})
_OPENING: Final = b'{"results":['
_MOST: Final = 64  # bytes of the beginning: more than the opening is not needed
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class Feed:
    """What was sent of an answer to `_changes`, as far as its end depends on it.

    https://docs.couchdb.org/en/stable/api/database/changes.html#changes-feeds
    """

    def __init__(self, kind: str, since: str) -> None:
        self._is_longpoll = kind == "longpoll"
        self._since = since
        self._beginning = b""
        self._is_at_line_end = True

    @classmethod
    def of(cls, target: str) -> Feed | None:
        """The feed that a request for `target` opens, None if it opens none that lasts."""
        if "/_changes" not in target:
            return None
        path, query = split_target(target)
        given = dict(parse_qsl(query))
        kind = given.get("feed", "")
        is_feed = path.endswith("/_changes") and kind in _LASTING
        return cls(kind, given.get("since", "0")) if is_feed else None

    def take(self, data: bytes) -> None:
        """Note what is sent. Heartbeats are empty lines."""
        if data:
            self._is_at_line_end = data.endswith(b"\n")
            self._beginning = (self._beginning + data[:_MOST]).strip()[:_MOST]

    def ending_of(self, answer: web.StreamResponse) -> bytes | None:
        """The bytes that complete the answer, perhaps none; None where it can't be completed.

        A long poll without changes ends at the sequence that it began with, so that the next one misses none.
        """
        is_plain = not any(name in answer.headers for name in ("Content-Length", "Content-Encoding"))
        if answer.status != HTTPStatus.OK or not is_plain:
            return None
        if not self._is_longpoll:
            return b"" if self._is_at_line_end else None
        if self._beginning != _OPENING:
            return None
        since = self._since.strip('"')
        sequence = since if _NUMBER.fullmatch(since) else json.dumps(since)
        return f'],\n"last_seq":{sequence},"pending":0}}\n'.encode()
