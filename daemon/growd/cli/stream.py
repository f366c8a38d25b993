"""The messages of a topic as a stream that reconnects after a restart of the daemon."""

from __future__ import annotations

import time
from contextlib import ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd.cli.client import DaemonRefusedError, NotReachedError, target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.cli.client import DaemonClient

RETRY_S: Final = 0.5
_RETURNING: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_MOST_REFUSALS: Final = 40  # in a row from a restarted daemon, whose topics may come later


class Line(msgspec.Struct):
    """One message of a stream, or the number of dropped ones; `time` in UNIX seconds."""

    value: Any = None
    time: float = 0.0
    quality: str = ""
    node: str = ""
    number: int = 0
    dropped: int = 0


def follow(
    client: DaemonClient, topic: str, *, latest: bool, broken: Callable[[], None] | None = None
) -> Iterator[tuple[bytes, Line]]:
    """Each message, raw and decoded; with `latest` the latest one first. Endless.

    Reconnects with one message on standard error, and calls `broken`. Raises `ClientError` if the first
    connection fails, or a later one is refused permanently.
    """
    last = (0, 0.0)
    connect = _at_once
    while True:
        with ExitStack() as stack:
            lines = connect(
                client, target("topic_stream", topic) + ("" if latest else "?latest=false"), stack
            )
            for text in lines:
                line = _decoded(text)
                if line.dropped:
                    notify(f"dropped {line.dropped} messages of {topic}: they were read too slowly")
                elif (line.number, line.time) != last:  # the latest may be a repetition
                    last = (line.number, line.time)
                    yield text, line
        notify(f"lost the connection to growd at {client.address}; reconnecting")
        if broken is not None:
            broken()
        connect = _retrying


def _at_once(client: DaemonClient, path: str, stack: ExitStack) -> Iterator[bytes]:
    return stack.enter_context(client.lines(path))


def _retrying(client: DaemonClient, path: str, stack: ExitStack) -> Iterator[bytes]:
    refused = 0
    while True:
        time.sleep(RETRY_S)
        try:
            lines = stack.enter_context(client.lines(path))
        except NotReachedError:
            refused = 0
        except DaemonRefusedError as error:
            refused += 1
            if error.status not in _RETURNING or refused == _MOST_REFUSALS:
                raise
        else:
            notify("reconnected")
            return lines


def _decoded(text: bytes) -> Line:
    try:
        return msgspec.json.decode(text, type=Line)
    except msgspec.DecodeError as error:
        raise NotReachedError(f"a program other than growd streams there ({error})") from None


def notify(sentence: str) -> None:
    """Print a message on standard error."""
    click.echo(f"growd: {sentence}", err=True)
