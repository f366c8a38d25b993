"""Names of topics, parameters, services and nodes: lists, suggestions, completion in a shell."""

from __future__ import annotations

import difflib
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from growd.config import ConfigError
from growd.variables import SHORT_NAMES, similar_variable
from growd_cli.arguments import HEADINGS, fields_of
from growd_cli.options import DaemonOptions, client_options
from growd_cli.output import output_options, print_result, table, tree
from growd_client.errors import GrowdError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.shell_completion import CompletionItem

    from growd_client.connection import DaemonClient

T = TypeVar("T")

_MOST: Final = 3  # suggestions
_LIKENESS: Final = 0.6  # minimum similarity (difflib) of a suggestion
_PLAIN: Final = re.compile(r"[\w./:@%+,=-]+")  # a shell would run `$(...)` in a completed name
_COMPLETION_S: Final = 1.0  # the shell waits for the names


class _Names(msgspec.Struct):
    results: list[str]


def names_of(client: DaemonClient, resource: str, prefix: str = "") -> list[str]:
    """The names of all topics, parameters ("param"), services or nodes at or below `prefix`."""
    names = client.get(resource, kind=_Names).results
    bare = prefix.strip("/")
    return [name for name in names if not bare or name == bare or name.startswith(bare + "/")]


def add_list(group: click.Group, resource: str, plural: str) -> None:
    """Add the command `list` to the group of a resource."""

    @group.command("list", help=f"List all {plural}, or those below PREFIX.")
    @click.argument(
        "prefix", metavar="[PREFIX]", required=False, default="", shell_complete=completing(resource)
    )
    @output_options
    @client_options
    def list_command(*, daemon: DaemonOptions, prefix: str, as_json: bool) -> None:
        with daemon.client() as client:
            names = names_of(client, resource, prefix)
        print_result(names, names, as_json=as_json)


def add_look_ups(group: click.Group, resource: str, plural: str) -> None:
    """Add the commands `list` and `info` to the group of a resource."""
    add_list(group, resource, plural)

    @group.command(help=f"Show what growd knows of a {resource}, with the units and ranges of its fields.")
    @name_argument(resource)
    @output_options
    @client_options
    def info(*, daemon: DaemonOptions, name: str, as_json: bool) -> None:
        with daemon.client() as client:
            found = look_up(client, resource, name, kind=dict[str, Any])
            fields = fields_of(client, resource, name)
        about = ["", *table(HEADINGS, [field.row() for field in fields])] if fields else []
        answer = {**found, "fields": fields} if fields else found
        print_result(answer, [*tree(found), *about], as_json=as_json)


def similar(name: str, names: Sequence[str]) -> list[str]:
    """Suggestions for an unknown name.

    First names whose variable has this short name (`desired/co2`), then names that end in it, then similar
    names.
    """
    bare = name.strip("/")
    branch, _, last = bare.rpartition("/")
    meant = f"{branch}/{similar_variable(last)}".strip("/")
    if last.lower() in SHORT_NAMES and (
        short := [each for each in names if f"/{each}".endswith(f"/{meant}")]
    ):
        return short[:_MOST]
    ending = [each for each in names if bare and f"/{each}".endswith(f"/{bare}")]
    alike = difflib.get_close_matches(bare, names, _MOST, _LIKENESS)
    return list(dict.fromkeys([*ending, *alike]))[:_MOST]


def look_up(client: DaemonClient, resource: str, name: str, *, kind: type[T]) -> T:
    """GET a resource; the error for an unknown name has suggestions."""
    try:
        return client.get(resource, name, kind=kind)
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        query = "declared=true" if resource == "param" else ""  # undeclared ones may be misspelt
        known = client.get(resource, kind=_Names, query=query).results
        meant = did_you_mean(name, known) or did_you_mean(name, _branches(known))
        raise RefusedError(f"{error}{meant}", error.status, error.code) from None


def _branches(names: Sequence[str]) -> list[str]:
    """What the names are below, such as the nodes of parameters."""
    return sorted({name[:end] for name in names for end, letter in enumerate(name) if letter == "/"})


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Suggestions to append to an error message; "" for none."""
    found = similar(name, names)
    if not found:
        return ""
    *others, last = found
    return f"; did you mean {', '.join(others)} or {last}?" if others else f"; did you mean {last}?"


def completing(
    resource: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """For `shell_complete`: the names in the running daemon, without names a shell would expand."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        slash = "/" if incomplete.startswith("/") else ""
        return complete_with(
            ctx, incomplete, lambda client: [slash + name for name in names_of(client, resource)]
        )

    return complete


def complete_with(
    ctx: click.Context, incomplete: str, ask: Callable[[DaemonClient], list[str]]
) -> list[CompletionItem]:
    """The results of `ask` that begin with `incomplete`; none if the daemon is not available."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only for completion

    given = {
        name: ctx.params[name] for name in DaemonOptions.__struct_fields__ if ctx.params.get(name) is not None
    }
    try:
        with DaemonOptions(**{**given, "may_ask": False}).client(_COMPLETION_S) as client:
            names = ask(client)
    except (GrowdError, ConfigError, UnicodeError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def name_argument(resource: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The argument NAME."""
    return click.argument("name", metavar="NAME", callback=_named, shell_complete=completing(resource))


def _named(_: click.Context, __: click.Parameter, name: str) -> str:
    """An empty name would list all names."""
    if not name.strip("/"):
        raise click.BadParameter("the name is empty")
    return name
