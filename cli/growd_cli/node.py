"""`growd node`: the nodes of the running daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from growd_cli.names import add_list_command, look_up, name_argument
from growd_cli.options import client_options
from growd_cli.output import bullets, echo_lines, output_options, print_json, tree
from growd_cli.terminal import echo_text

if TYPE_CHECKING:
    from growd_cli.options import DaemonOptions

_LISTS: Final = {"pubs": "Publications", "subs": "Subscriptions", "srvs": "Services", "params": "Parameters"}


@click.group()
def node() -> None:
    """List and describe the nodes of the running daemon: sensors, controllers, actuators, the store."""


add_list_command(node, "node", "nodes")


@node.command()
@name_argument("node")
@output_options
@client_options
def info(*, daemon: DaemonOptions, name: str, as_json: bool) -> None:
    """Show the topics, services, parameters and state of a node."""
    with daemon.client() as client:
        found = look_up(client, "node", name, kind=dict[str, Any])
    if as_json:
        print_json(found)
        return
    echo_text(f"Node: {found.pop('node_name', name)}")
    for member, heading in _LISTS.items():
        echo_text()
        echo_lines(bullets(heading, found.pop(member, [])))
    for member, detail in found.items():
        echo_text()
        echo_lines(tree({member: detail}))
