"""The commands `growd alert list`, `test` and `acknowledge`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd_cli.names import complete_with
from growd_cli.options import client_options, json_option
from growd_cli.output import print_json
from growd_cli.terminal import echo_text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from growd_cli.options import DaemonOptions

_TEST_S: Final = 660.0  # above the largest timeout_s of a channel


class _Node(msgspec.Struct):
    alerts: list[dict[str, Any]] = []
    channels: list[dict[str, Any]] = []
    rules: list[str] | None = None


class _Answer(msgspec.Struct):
    success: bool
    message: str
    results: list[dict[str, Any]] = []


@click.group()
def alert() -> None:
    """Show open alerts and test the channels."""


def _complete_channel(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return complete_with(
        ctx,
        incomplete,
        lambda client: [each["name"] for each in client.get("node", "alerts", kind=_Node).channels],
    )


@alert.command("list")
@client_options
@json_option
def list_command(*, daemon: DaemonOptions, as_json: bool) -> None:
    """Print the open alerts and the state of each channel.

    The exit status is 0 without open alerts, 1 with some, and 3 if no daemon answers.
    """
    with daemon.client() as client:
        node = client.get("node", "alerts", kind=_Node)
    if as_json:
        print_json(node)
    else:
        for each in node.alerts:
            seen = (
                f" (acknowledged by {each['acknowledged_by'] or 'someone'})" if each["acknowledged"] else ""
            )
            echo_text(f"{each['id']}  {each['severity']}: {each['text']}, since {each['since']}{seen}")
        if not node.alerts:
            echo_text("No alert is open.")
        if node.rules == []:
            echo_text("No rule is configured, so no alert can start: add [[notify]] or [[alert]] sections.")
        for channel in node.channels:
            echo_text(_of_channel(channel))
    sys.exit(1 if node.alerts else 0)


@alert.command()
@click.argument("channel", default="", shell_complete=_complete_channel)
@client_options
def test(*, channel: str, daemon: DaemonOptions) -> None:
    """Send a test message on CHANNEL, or on all of them, and print the result."""
    _call(daemon, "alerts/test", {"channel": channel}, _TEST_S)


@alert.command()
@click.argument("which", metavar="[ALERT]", default="")
@click.option("--by", default="", metavar="NAME", help="Who acknowledges it.")
@client_options
def acknowledge(*, which: str, by: str, daemon: DaemonOptions) -> None:
    """Stop the repeats of ALERT; its end is still reported.

    ALERT is an id or the name of a rule; without it all open alerts are acknowledged.
    """
    _call(daemon, "alerts/acknowledge", {"alert": which, "by": by})


def _call(daemon: DaemonOptions, service: str, arguments: dict[str, Any], timeout_s: float = 10.0) -> None:
    with daemon.client(timeout_s) as client:
        answer = client.call(service, arguments, kind=_Answer)
    echo_text(answer.message, err=not answer.success)
    sys.exit(0 if answer.success else 1)


def _of_channel(channel: dict[str, Any]) -> str:
    words = f"channel {channel['name']} ({channel['kind']}): {channel['state']}"
    if channel["error"]:
        words += f": {channel['error']}"
    if channel["waiting"]:
        words += f"; {channel['waiting']} waiting"
    if channel["left_out"]:
        words += f"; {channel['left_out']} dropped"
    return words
