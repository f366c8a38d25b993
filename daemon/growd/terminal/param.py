"""`growd param`: the parameters of the running daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from growd.command_options import client_options
from growd.terminal.fields import value_of
from growd.terminal.names import list_names, look_up, name_argument, prefix_argument
from growd.terminal.output import echo_lines, output_options, print_json, text_of, tree

if TYPE_CHECKING:
    from growd.command_options import Reach


class _Value(msgspec.Struct):
    result: Any


@click.group()
def param() -> None:
    """Read and set parameters of the running daemon."""


@param.command("list")
@prefix_argument("param")
@output_options
@client_options
def list_command(*, reach: Reach, prefix: str, as_json: bool) -> None:
    """List parameters, those beneath PREFIX only if there is one."""
    list_names(reach, "param", prefix, as_json=as_json)


@param.command()
@name_argument("param")
@output_options
@client_options
def get(*, reach: Reach, name: str, as_json: bool) -> None:
    """Print the value of a parameter, or all values of a branch as a tree."""
    with reach.client() as client:
        value = look_up(client, "param", name, kind=_Value).result
    if as_json:
        print_json(value)
    else:
        echo_lines(tree(value))


@param.command("set", context_settings={"ignore_unknown_options": True})
@name_argument("param")
@click.argument("value")
@click.option("-t", "--text", is_flag=True, help="VALUE is text, also where it could be JSON.")
@output_options
@client_options
def set_command(*, reach: Reach, name: str, value: str, text: bool, as_json: bool) -> None:
    """Set a parameter, which growd keeps over restarts.

    VALUE is JSON (21, true, '{"a": 1}'), or else text. The value that is kept is printed.
    """
    with reach.client() as client:
        body = {"value": value if text else value_of(value)}
        kept = client.post("param", name, body, kind=_Value).result
    if as_json:
        print_json(kept)
    else:
        click.echo(text_of(kept))
