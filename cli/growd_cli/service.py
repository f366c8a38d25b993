"""`growd service`: list and call services of the running daemon."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click

from growd_cli.arguments import fields_of, service_arguments
from growd_cli.names import add_look_ups, complete_with, look_up, name_argument
from growd_cli.options import client_options
from growd_cli.output import echo_lines, output_options, print_json, tree
from growd_client.errors import RefusedError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from growd_cli.options import DaemonOptions

_TIMEOUT_S: Final = 60.0  # a service of a device may take a while


@click.group()
def service() -> None:
    """Call services of the running daemon."""


add_look_ups(service, "service", "services")


def _complete_argument(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete arguments as NAME=."""
    name = ctx.params["name"]
    return complete_with(
        ctx, incomplete, lambda client: [f"{field.name}=" for field in fields_of(client, "service", name)]
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
        look_up(client, "service", name, kind=dict[str, Any])
        given = service_arguments(arguments, fields_of(client, "service", name))
        answer = client.call(name, given, kind=dict[str, Any])
    if as_json:
        print_json(answer)
    if not answer.get("success"):
        sentence = answer.get("message") or answer.get("ERROR") or "the service refused"
        raise RefusedError(sentence, HTTPStatus.BAD_REQUEST)
    if not as_json:
        echo_lines(tree(answer))
