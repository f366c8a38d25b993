"""`growd node`: the nodes of the running daemon."""

from __future__ import annotations

import click

from growd_cli.names import add_look_ups


@click.group()
def node() -> None:
    """List and describe the nodes of the running daemon: sensors, controllers, actuators, the store."""


add_look_ups(node, "node", "nodes")
