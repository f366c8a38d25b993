"""`growd topic`: list, read and publish topics of the running daemon."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd_cli.arguments import fields_of, in_order
from growd_cli.names import add_look_ups, look_up, name_argument
from growd_cli.options import client_options
from growd_cli.output import echo_lines, number, output_options, print_json, quality, safe_json, tree
from growd_cli.terminal import echo_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from growd_cli.arguments import FieldInfo
    from growd_cli.options import DaemonOptions
    from growd_client.answers import TopicMessage
    from growd_client.connection import DaemonClient
    from growd_client.following import StreamEvent

_RETRY_S: Final = 0.5
_LONGEST_S: Final = 2.0
_HEARTBEAT_S: Final = 10.0
SILENT_S: Final = 3.0  # `growd topic echo` then says that it waits
_IN_UNITS: Final = ("raw", "measured", "desired")  # topics whose values are in the unit of the variable


@click.group()
def topic() -> None:
    """Read and publish topics of the running daemon."""


add_look_ups(topic, "topic", "topics")


@topic.command()
@name_argument("topic")
@click.option("-n", "--count", type=click.IntRange(min=1), metavar="COUNT", help="Stop after COUNT messages.")
@output_options
@client_options
def echo(*, daemon: DaemonOptions, name: str, count: int | None, as_json: bool) -> None:
    """Print the messages of a topic, beginning with the latest.

    --json prints each on one line, with its time and quality. The command reconnects after a restart of the
    daemon. It ends with Ctrl-C (exit status 130) or after COUNT messages.
    """
    with daemon.client() as client:
        look_up(client, "topic", name, kind=dict[str, Any])
        fields = [] if as_json else fields_of(client, "topic", name)
        with _noting_silence(name) as heard:
            for seen, message in enumerate(_follow(client, name), 1):
                heard()
                echo_lines(
                    [safe_json(_document(message).decode())] if as_json else _lines_of(name, message, fields)
                )
                if seen == count:
                    return


@contextmanager
def _noting_silence(name: str) -> Iterator[Callable[[], None]]:
    """Print a line on standard error unless the body soon calls what it gets."""
    sentence = f"no message on {name} yet; waiting for the first one (Ctrl-C ends)"
    timer = threading.Timer(SILENT_S, lambda: _notify(sentence))
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _lines_of(name: str, message: TopicMessage, fields: Sequence[FieldInfo]) -> list[str]:
    """In the style of rostopic; the unit, and a quality other than ok, as a YAML comment."""
    value = message.value
    *_, category, variable = ["", *name.strip("/").split("/")]
    if isinstance(value, float) and category in _IN_UNITS:
        value = float(number(value, variable))
    if not isinstance(value, dict):
        value = {fields[0].name if fields else "data": value}
    lines = list(tree(value))
    remarks = [fields[0].unit] if len(fields) == 1 and fields[0].unit else []
    if message.quality != "ok":
        remarks.append(quality(message.quality))
    if remarks:
        lines[0] += click.style(f"  # {', '.join(remarks)}", "bright_black")
    return [*lines, "---"]


@topic.command(context_settings={"ignore_unknown_options": True})
@name_argument("topic")
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
@output_options
@client_options
def pub(*, daemon: DaemonOptions, name: str, values: tuple[str, ...], as_json: bool) -> None:
    """Publish a message.

    Give one VALUE for each field of the topic's type (see `growd topic info`). Values are JSON (21, 21.0,
    true), except for text fields.
    """
    with daemon.client() as client:
        look_up(client, "topic", name, kind=dict[str, Any])
        arguments = in_order(values, fields_of(client, "topic", name))
        answer = client.post("topic", name, arguments, kind=dict[str, Any])
    if as_json:
        print_json(answer)
    elif "hint" in answer:
        _notify(f"{name}: {answer['hint']}")


@topic.command()
@name_argument("topic")
@client_options
def release(*, daemon: DaemonOptions, name: str) -> None:
    """Release a set point or a command that was set by hand.

    NAME is a topic below desired/ or commanded/. If a recipe or a controller drives it, its value applies
    again; otherwise the output goes to its safe state.
    """
    if "/measured/" in name:
        raise click.UsageError("a measurement can't be released; set points and commands can")
    with daemon.client() as client:
        look_up(client, "topic", name, kind=dict[str, Any])
        answer = client.post("topic", name, [None], kind=dict[str, Any])
    if "hint" in answer:
        _notify(f"{name}: {answer['hint']}")


def _follow(client: DaemonClient, topic: str) -> Iterator[TopicMessage]:
    """Each message, the latest one first. Endless.

    Reconnects with one message on standard error. Raises `GrowdError` if the first connection fails, or a
    later one is refused permanently.
    """
    from growd_client.blocking import messages_of  # noqa: PLC0415  other commands need none of this
    from growd_client.following import Disconnected, Dropped, Following, Pauses  # noqa: PLC0415

    def report(event: StreamEvent) -> None:
        if isinstance(event, Dropped):
            _notify(f"dropped {event.count} messages of {topic}: they were read too slowly")
        elif isinstance(event, Disconnected):
            _notify(f"lost the connection to growd at {client.address}; reconnecting")
        else:
            _notify("reconnected")

    pauses = Pauses(_RETRY_S, _LONGEST_S)
    return messages_of(client, Following([topic], 0.0, _HEARTBEAT_S, pauses, report, latest=True))


def _document(message: TopicMessage) -> bytes:
    """A message as one line of JSON, as `topic_stream` sends it."""
    members = ("value", "time", "quality", "node", "number")
    return msgspec.json.encode({name: getattr(message, name) for name in members})


def _notify(sentence: str) -> None:
    """Print a message on standard error."""
    echo_text(f"growd: {sentence}", err=True)
