"""`growd fleet`: devices of a cloud, their logins, reports and recipes."""

from __future__ import annotations

from typing import Final

import click

from growd_cli.lazy_group import Command, LazyGroup

SUBCOMMANDS: Final = {
    "enroll": Command(
        "growd_cli.fleet_enroll:enroll", "Enrol this device: its login, its replication, its reports."
    ),
    "invite": Command("growd_cli.fleet_admin:invite", "Print a code with which a device can enrol."),
    "list": Command(
        "growd_cli.fleet_admin:list_command", "List the devices with their state, lag and alerts."
    ),
    "publish": Command(
        "growd_cli.fleet_recipes:publish", "Check recipes and publish them to all or some devices."
    ),
    "recipes": Command(
        "growd_cli.fleet_recipes:recipes", "List the published recipes and for whom they are."
    ),
    "withdraw": Command("growd_cli.fleet_recipes:withdraw", "Delete published recipes on all devices."),
    "rename": Command("growd_cli.fleet_admin:rename", "Change the name or the group of a device."),
    "reader": Command(
        "growd_cli.fleet_admin:reader", "Make, renew or end a login for the page and the list."
    ),
    "revoke": Command("growd_cli.fleet_admin:revoke", "Remove the login of a device; its points stay."),
}


@click.group(cls=LazyGroup, places=SUBCOMMANDS)
def fleet() -> None:
    """Enrol devices in a cloud, list them, and publish recipes to them.

    `enroll` runs on the device. The others run on the machine of an administrator, and ask the CouchDB of the
    cloud.
    """
