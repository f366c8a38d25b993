"""The command `growd status`: how the running daemon is."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click
import msgspec

from growd.client import client_options
from growd.status import report, status_of

if TYPE_CHECKING:
    from growd.client import Reach


@click.command()
@client_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(*, reach: Reach, as_json: bool) -> None:
    """Tell how the devices and the store of the running daemon are, and what is replicated.

    The exit status is 1 where a device has failed or points can't be kept, 3 where no daemon answers.
    """
    with reach.client() as client:
        found = status_of(client)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found), indent=2))
    else:
        click.echo(report(found, time.time()))
    sys.exit(1 if found.has_failed else 0)
