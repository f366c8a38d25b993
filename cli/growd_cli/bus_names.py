"""`growd param`, `growd service` and `growd node`: what is on the bus, apart from topics."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd_cli.arguments import fields_of, service_arguments, value_of
from growd_cli.names import add_list, add_look_ups, complete_with, look_up, name_argument
from growd_cli.options import client_options
from growd_cli.output import echo_lines, output_options, print_json, print_result, text_of, tree
from growd_client.errors import RefusedError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from growd_cli.options import DaemonOptions

_NEW: Final = "new=true"
_TIMEOUT_S: Final = 60.0  # a service of a device may take a while


class _Value(msgspec.Struct):
    result: Any


@click.group()
def param() -> None:
    """Read and set parameters of the running daemon."""


add_list(param, "param", "parameters")


@param.command()
@name_argument("param")
@output_options
@client_options
def get(*, daemon: DaemonOptions, name: str, as_json: bool) -> None:
    """Print the value of a parameter, or the tree of a branch."""
    with daemon.client() as client:
        value = look_up(client, "param", name, kind=_Value).result
    print_result(value, tree(value, leaf=text_of), as_json=as_json)


@param.command("set", context_settings={"ignore_unknown_options": True})
@name_argument("param")
@click.argument("value")
@click.option("-t", "--text", is_flag=True, help="Take VALUE as text, not as JSON.")
@click.option("--new", is_flag=True, help="Allow a name that no node has declared.")
@output_options
@client_options
def set_command(
    *, daemon: DaemonOptions, name: str, value: str, text: bool, new: bool, as_json: bool
) -> None:
    """Set a parameter. Its value persists over restarts.

    VALUE is JSON (21, true, '{"a": 1}'), or else text. Prints the stored value.
    """
    with daemon.client() as client:
        body = {"value": value if text else value_of(value)}
        try:
            stored = client.post("param", name, body, kind=_Value, query=_NEW if new else "").result
        except RefusedError as error:
            if error.code != "undeclared":
                raise
            raise RefusedError(str(error).replace(_NEW, "--new"), error.status, error.code) from None
    print_result(stored, [text_of(stored)], as_json=as_json)


@param.command()
@name_argument("param")
@output_options
@client_options
def delete(*, daemon: DaemonOptions, name: str, as_json: bool) -> None:
    """Delete a parameter or a branch.

    A parameter that a node of growd has declared is set to its default, which is printed.
    """
    with daemon.client() as client:
        left = client.delete("param", name, kind=_Value).result
    print_result(left, [] if left is None else [text_of(left)], as_json=as_json)


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


@click.group()
def node() -> None:
    """List and describe the nodes of the running daemon: sensors, controllers, actuators, the store."""


add_look_ups(node, "node", "nodes")
