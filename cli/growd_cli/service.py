"""`growd service`: list and call services of the running daemon."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd_cli.arguments import HEADINGS, service_arguments, service_fields
from growd_cli.names import add_list_command, complete_with, look_up, name_argument
from growd_cli.options import client_options
from growd_cli.output import echo_lines, output_options, print_json, table, tree
from growd_cli.terminal import echo_text
from growd_client.errors import RefusedError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from growd_cli.options import DaemonOptions

_TIMEOUT_S: Final = 60.0  # a service of a device may take a while


class _Service(msgspec.Struct):
    request_type: str
    node: str
    args: list[str]


@click.group()
def service() -> None:
    """Call services of the running daemon."""


add_list_command(service, "service", "services")


@service.command()
@name_argument("service")
@output_options
@client_options
def info(*, daemon: DaemonOptions, name: str, as_json: bool) -> None:
    """Show the node and the arguments of a service, with units and ranges."""
    with daemon.client() as client:
        found = look_up(client, "service", name, kind=_Service)
        fields = service_fields(client, name)
    if as_json:
        print_json({**msgspec.to_builtins(found), "fields": msgspec.to_builtins(fields)})
        return
    echo_text(f"Node: {found.node}\nType: {found.request_type}\nArgs: {' '.join(found.args)}".rstrip())
    if fields:
        echo_text()
        echo_lines(table(HEADINGS, [each.row() for each in fields]))


@service.command("args")
@name_argument("service")
@output_options
@client_options
def args_command(*, daemon: DaemonOptions, name: str, as_json: bool) -> None:
    """Print the names of a service's arguments, in order."""
    with daemon.client() as client:
        found = look_up(client, "service", name, kind=_Service).args
    if as_json:
        print_json(found)
    else:
        echo_text(" ".join(found))


def _complete_argument(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete arguments as NAME=."""
    return complete_with(
        ctx, incomplete, lambda client: [f"{f.name}=" for f in service_fields(client, ctx.params["name"])]
    )


@service.command(context_settings={"ignore_unknown_options": True})
@name_argument("service")
@click.argument(
    "arguments", nargs=-1, metavar="[ARGUMENT...|NAME=VALUE...]", shell_complete=_complete_argument
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Time limit.",
)
@output_options
@client_options
def call(
    *, daemon: DaemonOptions, name: str, arguments: tuple[str, ...], timeout: float, as_json: bool
) -> None:
    """Call a service and print its answer.

    Give the arguments in order or by name (see `growd service info`). Values are JSON (21, true,
    '{"a": 1}'), except for text arguments. The exit status is 1 if the service refuses.
    """
    with daemon.client(timeout) as client:
        look_up(client, "service", name, kind=_Service)
        given = service_arguments(arguments, service_fields(client, name))
        answer = client.call(name, given, kind=dict[str, Any])
    if as_json:
        print_json(answer)
    if not answer.get("success"):
        sentence = answer.get("message") or answer.get("ERROR") or "the service refused"
        raise RefusedError(sentence, HTTPStatus.BAD_REQUEST)
    if not as_json:
        echo_lines(tree(answer))
