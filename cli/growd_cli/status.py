"""The command `growd status`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from growd.status.notices import SEVERITIES, notices_of
from growd.status.summary import verdict_of
from growd_cli.asking import status_of
from growd_cli.options import client_options, json_option
from growd_cli.output import print_json
from growd_cli.status_table import report
from growd_cli.terminal import echo_text
from growd_cli.times import zone_of

if TYPE_CHECKING:
    from growd_cli.options import DaemonOptions


@click.command()
@client_options
@json_option
def status(*, daemon: DaemonOptions, as_json: bool) -> None:
    """Show the state of devices, variables, recipes, interlocks, points, database and machine.

    The exit status is 0 if everything works, also with warnings; 1 if a device has failed, an interlock waits
    for a reset, or points can't be saved or were lost; 3 if no daemon answers; 4 if it refuses the login.
    """
    with daemon.client() as client:
        found = status_of(client)
        is_waiting = any(each.state == "waiting" for each in found.recipes)
        zone = zone_of(client) if is_waiting else None
    notices = notices_of(found)
    if as_json:
        texts = {
            f"{name}s": [each.text for each in notices if each.severity == name] for name in SEVERITIES[:2]
        }
        print_json({**msgspec.to_builtins(found), "verdict": verdict_of(found, notices), **texts})
    else:
        echo_text(report(found, zone))
    sys.exit(1 if any(each.severity == "failure" for each in notices) else 0)
