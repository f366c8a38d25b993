"""`growd param`: read and set parameters of the running daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from growd_cli.arguments import value_of
from growd_cli.names import add_list, look_up, name_argument
from growd_cli.options import client_options
from growd_cli.output import output_options, print_result, text_of, tree
from growd_client.errors import RefusedError

if TYPE_CHECKING:
    from growd_cli.options import DaemonOptions


_NEW: Final = "new=true"


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
