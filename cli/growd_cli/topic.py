"""`growd topic`: list, read, publish and measure topics of the running daemon."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd_cli.arguments import HEADINGS, message_arguments, message_fields
from growd_cli.names import list_names, look_up, name_argument, names_of, prefix_argument
from growd_cli.options import client_options
from growd_cli.output import (
    bullets,
    echo_lines,
    number,
    output_options,
    print_json,
    print_result,
    quality,
    safe_json,
    table,
    tree,
)
from growd_cli.stream import RETRY_S, document, follow, notify
from growd_cli.terminal import echo_text
from growd_client.errors import GrowdError, NotReachedError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from growd_cli.arguments import FieldInfo
    from growd_cli.options import DaemonOptions
    from growd_client.answers import TopicMessage
    from growd_client.connection import DaemonClient

SILENT_S: Final = 3.0  # `growd topic echo` then says that it waits
_REPORT_S: Final = 1.0  # between two reports of `growd topic hz`
_QUIET_REPORTS: Final = 3  # without a message before a report; at 1 Hz single ones are usual
_IN_UNITS: Final = ("raw", "measured", "desired")  # topics whose values are in the unit of the variable
_WAITING: Final = 1_000  # arrivals waiting for a report


class _Topic(msgspec.Struct):
    type: str
    pubs: list[str]
    subs: list[str]


@click.group()
def topic() -> None:
    """Read, publish and measure topics of the running daemon."""


@topic.command("list")
@prefix_argument("topic")
@click.option(
    "-v", "--verbose", is_flag=True, help="Also print types and the number of publishers and subscribers."
)
@output_options
@client_options
def list_command(*, daemon: DaemonOptions, prefix: str, verbose: bool, as_json: bool) -> None:
    """List all topics, or those below PREFIX."""
    if not verbose:
        list_names(daemon, "topic", prefix, as_json=as_json)
        return
    with daemon.client() as client:
        found = [(name, client.get("topic", name, kind=_Topic)) for name in names_of(client, "topic", prefix)]
    rows = [(name, each.type, str(len(each.pubs)), str(len(each.subs))) for name, each in found]
    print_result(
        [{"name": name, **msgspec.to_builtins(each)} for name, each in found],
        table(("topic", "type", "publishers", "subscribers"), rows),
        as_json=as_json,
    )


@topic.command()
@name_argument("topic")
@output_options
@client_options
def info(*, daemon: DaemonOptions, name: str, as_json: bool) -> None:
    """Show the type of a topic, units, ranges, publishers and subscribers."""
    with daemon.client() as client:
        found = look_up(client, "topic", name, kind=_Topic)
        fields = message_fields(client, name)
    if as_json:
        print_json({**msgspec.to_builtins(found), "fields": msgspec.to_builtins(fields)})
        return
    echo_text(f"Type: {found.type}\n")
    if fields:
        echo_lines(table(HEADINGS[:3], [each.row()[:3] for each in fields]))
        echo_text()
    echo_lines(bullets("Publishers", found.pubs))
    echo_text()
    echo_lines(bullets("Subscribers", found.subs))


@topic.command("type")
@name_argument("topic")
@output_options
@client_options
def type_command(*, daemon: DaemonOptions, name: str, as_json: bool) -> None:
    """Print the message type of a topic."""
    with daemon.client() as client:
        found = look_up(client, "topic", name, kind=_Topic).type
    print_result(found, [found], as_json=as_json)


@topic.command()
@click.argument("wanted", metavar="TYPE")
@output_options
@client_options
def find(*, daemon: DaemonOptions, wanted: str, as_json: bool) -> None:
    """Print the topics of message type TYPE, such as std_msgs/Float64."""
    with daemon.client() as client:
        names = names_of(client, "topic")
        found = [name for name in names if client.get("topic", name, kind=_Topic).type == wanted]
    print_result(found, found, as_json=as_json)


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
        look_up(client, "topic", name, kind=_Topic)
        fields = [] if as_json else message_fields(client, name)
        with _noting_silence(name) as heard:
            for seen, message in enumerate(follow(client, name, latest=True), 1):
                heard()
                echo_lines(
                    [safe_json(document(message).decode())] if as_json else _lines_of(name, message, fields)
                )
                if seen == count:
                    return


@contextmanager
def _noting_silence(name: str) -> Iterator[Callable[[], None]]:
    """Print a line on standard error unless the body soon calls what it gets."""
    sentence = f"no message on {name} yet; waiting for the first one (Ctrl-C ends)"
    timer = threading.Timer(SILENT_S, lambda: notify(sentence))
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
@click.option(
    "-r",
    "--rate",
    type=click.FloatRange(min=0, min_open=True, max=1000),
    metavar="HZ",
    help="Repeat it at this rate.",
)
@click.option("--once", is_flag=True, help="Publish once (the default).")
@output_options
@client_options
def pub(
    *,
    daemon: DaemonOptions,
    name: str,
    values: tuple[str, ...],
    rate: float | None,
    once: bool,
    as_json: bool,
) -> None:
    """Publish a message once, or HZ times a second.

    Give one VALUE for each field of the topic's type (see `growd topic info`), or one JSON array with all of
    them. Values are JSON (21, 21.0, true), except for text fields.

    With --rate, the command reconnects after a restart of the daemon, and ends with Ctrl-C (exit status 130).
    """
    _refuse_options(values)
    if once and rate is not None:
        raise click.UsageError("--once and --rate can't be used together")
    with daemon.client() as client:
        found = look_up(client, "topic", name, kind=_Topic)
        if len(values) > 1 and values[0] == found.type:
            values = values[1:]  # rostopic needs the type
        arguments = message_arguments(values, message_fields(client, name))
        answer = client.post("topic", name, arguments, kind=dict[str, Any])
        if as_json:
            print_json(answer)
        elif "hint" in answer:
            notify(answer["hint"])
        if rate is not None:
            _repeat(client, name, arguments, 1 / rate)


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
        look_up(client, "topic", name, kind=_Topic)
        answer = client.post("topic", name, [None], kind=dict[str, Any])
    if "hint" in answer:
        notify(answer["hint"])


def _refuse_options(values: Sequence[str]) -> None:
    """Negative numbers look like options; refuse anything else that does."""
    for value in values:
        if value.startswith("-"):
            try:
                float(value)
            except ValueError:
                raise click.NoSuchOption(value) from None


def _repeat(client: DaemonClient, name: str, arguments: list[Any], interval_s: float) -> None:
    """Publish on a schedule without drift; skips times in the past."""
    due = time.monotonic()
    is_away = False
    while True:
        now = time.monotonic()
        due += max(1, math.ceil((now - due) / interval_s)) * interval_s
        time.sleep(max(0.0, due - now, RETRY_S if is_away else 0.0))
        try:
            client.post("topic", name, arguments, kind=dict[str, Any])
        except NotReachedError:
            if not is_away:
                notify(f"lost the connection to growd at {client.address}; reconnecting")
            is_away = True
        except RefusedError as error:
            if not is_away or error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE}:
                raise
        else:
            if is_away:
                notify("reconnected")
            is_away = False


def _measuring(command: Callable[..., None]) -> Callable[..., None]:
    """The options `--window` and `--count`."""
    window = click.option(
        "-w",
        "--window",
        type=click.IntRange(2, 100_000),
        default=1_000,
        show_default=True,
        metavar="COUNT",
        help="Measure over the latest COUNT messages.",
    )
    count = click.option(
        "-n", "--count", type=click.IntRange(min=2), metavar="COUNT", help="Stop after COUNT messages."
    )
    return window(count(command))


@topic.command()
@name_argument("topic")
@_measuring
@output_options
@client_options
def hz(*, daemon: DaemonOptions, name: str, window: int, count: int | None, as_json: bool) -> None:
    """Measure the rate of a topic: Hz; minimum, maximum and standard deviation of the intervals.

    Times are those of arrival here. The command ends with Ctrl-C (exit status 130) or after COUNT messages.
    """
    with daemon.client() as client:
        look_up(client, "topic", name, kind=_Topic)
        _measure(client, name, Intervals(window), count, as_json=as_json)


def _measure(
    client: DaemonClient, name: str, intervals: Intervals, count: int | None, *, as_json: bool
) -> None:
    arrivals: queue.Queue[float | GrowdError | None] = queue.Queue(_WAITING)
    reader = threading.Thread(target=_read, args=(client, name, arrivals), name=f"read {name}", daemon=True)
    reader.start()
    came, reported, quiet, report_due = 0, 0, 0, time.monotonic() + _REPORT_S
    while count is None or came < count:
        with suppress(queue.Empty):
            arrival = arrivals.get(timeout=max(0.0, report_due - time.monotonic()))
            if isinstance(arrival, GrowdError):
                raise arrival
            came += arrival is not None
            intervals.add(arrival)
        if time.monotonic() >= report_due:
            quiet = 0 if came > reported else quiet + 1
            if quiet % _QUIET_REPORTS == 0:
                _report(intervals, as_json=as_json, is_news=came > reported)
            reported, report_due = came, time.monotonic() + _REPORT_S
    _report(intervals, as_json=as_json, is_news=True)


def _read(client: DaemonClient, name: str, arrivals: queue.Queue[float | GrowdError | None]) -> None:
    """Queue the time of each message, and None after a lost connection."""
    try:
        for _ in follow(client, name, latest=False, broken=lambda: arrivals.put(None)):
            arrivals.put(time.monotonic())
    except GrowdError as error:
        arrivals.put(error)


class Intervals:
    """The intervals between the messages of a window."""

    def __init__(self, window: int) -> None:
        self._intervals: deque[float] = deque(maxlen=window - 1)
        self._last: float | None = None

    def add(self, arrival: float | None) -> None:
        """Add a message at this monotonic time in seconds; None for a lost connection."""
        if arrival is None:
            self._intervals.clear()
        elif self._last is not None:
            self._intervals.append(arrival - self._last)
        self._last = arrival

    def statistics(self) -> dict[str, float] | None:
        """Rate in Hz, intervals in seconds, number of messages; None before the second message."""
        if not self._intervals:
            return None
        intervals = [*self._intervals]
        mean = math.fsum(intervals) / len(intervals)
        return {
            "rate_hz": 1 / mean if mean else 0.0,
            "min_s": min(intervals),
            "max_s": max(intervals),
            "std_dev_s": math.sqrt(math.fsum((gap - mean) ** 2 for gap in intervals) / len(intervals)),
            "window": len(intervals) + 1,
        }


def _report(intervals: Intervals, *, as_json: bool, is_news: bool) -> None:
    found = intervals.statistics()
    if found is None or not is_news:
        if not as_json and not is_news:
            echo_text("no new messages")
    elif as_json:
        print_json(found, on_one_line=True)
    else:
        echo_text(
            f"average rate: {found['rate_hz']:.3f} Hz   min: {found['min_s']:.3f} s   "
            f"max: {found['max_s']:.3f} s   std dev: {found['std_dev_s']:.5f} s   window: {found['window']}"
        )


@topic.command()
@name_argument("topic")
@_measuring
@output_options
@client_options
def bw(*, daemon: DaemonOptions, name: str, window: int, count: int | None, as_json: bool) -> None:
    """Measure the bandwidth of a topic: bytes per second; mean, minimum and maximum size of a message.

    The sizes are those of the JSON. The command ends with Ctrl-C (exit status 130) or after COUNT messages.
    """
    arrivals: deque[tuple[float, int]] = deque(maxlen=window)
    with daemon.client() as client:
        look_up(client, "topic", name, kind=_Topic)
        for number, message in enumerate(follow(client, name, latest=False), 1):
            arrivals.append((time.monotonic(), len(document(message))))
            if number > 1:
                _report_bytes(arrivals, as_json=as_json)
            if number == count:
                return


def _report_bytes(arrivals: Sequence[tuple[float, int]], *, as_json: bool) -> None:
    sizes = [size for _, size in arrivals]
    duration_s = arrivals[-1][0] - arrivals[0][0]
    found = {
        "bytes_per_s": sum(sizes[1:]) / duration_s if duration_s else 0.0,
        "mean_bytes": sum(sizes) / len(sizes),
        "min_bytes": min(sizes),
        "max_bytes": max(sizes),
        "window": len(sizes),
    }
    if as_json:
        print_json(found, on_one_line=True)
    else:
        echo_text(
            f"average: {found['bytes_per_s']:.1f} B/s   mean: {found['mean_bytes']:.0f} B   "
            f"min: {found['min_bytes']} B   max: {found['max_bytes']} B   window: {found['window']}"
        )
