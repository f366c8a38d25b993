"""`growd param`: read and set parameters of the running daemon."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click
import msgspec

from growd.runtime.text_file import EncodingError, decoded
from growd_cli.arguments import value_of
from growd_cli.names import add_list_command, look_up, name_argument, names_of, prefix_argument
from growd_cli.options import client_options, refuse, refuse_existing, replace_option
from growd_cli.output import output_options, print_result, safe_json, text_of, tree
from growd_cli.terminal import echo_text
from growd_client.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from growd_cli.options import DaemonOptions
    from growd_client.connection import DaemonClient


_NEW: Final = "new=true"


class _Value(msgspec.Struct):
    result: Any


@click.group()
def param() -> None:
    """Read and set parameters of the running daemon."""


add_list_command(param, "param", "parameters")


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


@param.command()
@prefix_argument("param")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to FILE instead of standard output.",
)
@replace_option
@client_options
def dump(*, daemon: DaemonOptions, prefix: str, path: Path | None, replace: bool) -> None:
    """Print parameters as JSON, for `growd param load`.

    The JSON object has a member for each parameter at or below PREFIX, with its full name and value.
    """
    refuse_existing(path, replace=replace)
    with daemon.client() as client:
        found = {
            name: client.get("param", name, kind=_Value).result for name in names_of(client, "param", prefix)
        }
    text = json.dumps(found, ensure_ascii=False, indent=2)
    if path is None:
        echo_text(safe_json(text))
        return
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        refuse(f"{path} can't be written: {error.strerror}")


@param.command()
@click.argument("file", type=click.File("rb"))
@client_options
def load(*, daemon: DaemonOptions, file: BinaryIO) -> None:
    """Set the parameters in FILE, as written by `growd param dump`; - is standard input.

    Read-only parameters, and those that have the value already, are skipped.
    """
    values = _named_values(file)
    count = skipped = 0
    with daemon.client() as client:
        for name, value in values.items():
            try:
                if not _holds(client, name, value):
                    client.post("param", name, {"value": value}, kind=_Value, query=_NEW)
                    count += 1
            except RefusedError as error:
                if error.code != "read_only":
                    raise RefusedError(
                        f"{error} ({count} parameters were already set)", error.status
                    ) from None
                skipped += 1
    echo_text(f"set {count} of {len(values)} parameters; {skipped} are read-only, the others were unchanged")


def _named_values(file: BinaryIO) -> dict[str, Any]:
    try:
        values = json.loads(decoded(file.read()))
    except EncodingError as error:
        raise UsageError(f"{file.name} can't be read: {error}") from None
    except ValueError as error:
        raise UsageError(f"{file.name} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{file.name} must contain one JSON object, with a member for each parameter")
    return values


def _holds(client: DaemonClient, name: str, value: Any) -> bool:
    try:
        held = client.get("param", name, kind=_Value).result
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return json.dumps(held, sort_keys=True) == json.dumps(value, sort_keys=True)
