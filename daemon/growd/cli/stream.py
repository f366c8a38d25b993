"""A topic's messages as they come, also over restarts of the daemon."""

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
_PATIENCE: Final = 40  # refusals in a row from a daemon that has come back: its topics may come later


class Line(msgspec.Struct):
    """One message of a stream, or how many were left out before the next. `time` in UNIX seconds."""

    value: Any = None
    time: float = 0.0
    quality: str = ""
    node: str = ""
    number: int = 0
    dropped: int = 0


def follow(
    client: DaemonClient, topic: str, *, latest: bool, broken: Callable[[], None] | None = None
) -> Iterator[tuple[bytes, Line]]:
    """Each message, as it came and decoded; with `latest` the last one first. Has no end.

    A connection that ends is opened again: that is said once on standard error, and `broken` is called.
    Raises `ClientError` where the first one can't be opened, or where a later one is refused for good.
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
                    tell(f"{line.dropped} messages of {topic} were left out, as they were read too slowly")
                elif (line.number, line.time) != last:  # the latest may be the one that was the last
                    last = (line.number, line.time)
                    yield text, line
        tell(f"growd at {client.address} has gone: waiting until it is back")
        if broken is not None:
            broken()
        connect = _patiently


def _at_once(client: DaemonClient, path: str, stack: ExitStack) -> Iterator[bytes]:
    return stack.enter_context(client.lines(path))


def _patiently(client: DaemonClient, path: str, stack: ExitStack) -> Iterator[bytes]:
    refused = 0
    while True:
        time.sleep(RETRY_S)
        try:
            lines = stack.enter_context(client.lines(path))
        except NotReachedError:
            refused = 0
        except DaemonRefusedError as error:
            refused += 1
            if error.status not in _RETURNING or refused == _PATIENCE:
                raise
        else:
            tell("growd is back")
            return lines


def _decoded(text: bytes) -> Line:
    try:
        return msgspec.json.decode(text, type=Line)
    except msgspec.DecodeError as error:
        raise NotReachedError(f"what streams there is not growd ({error})") from None


def tell(sentence: str) -> None:
    """On standard error, beside what is printed."""
    click.echo(f"growd: {sentence}", err=True)
