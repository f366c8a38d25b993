"""The command line: the table of commands. A command's module is imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from growd import __version__
from growd.cli.lazy_group import Command, LazyGroup

COMMANDS: Final = {
    "run": Command(
        "growd.cli.run:run", "Run the daemon until Ctrl-C; list, show and export runs of recipes."
    ),
    "safe": Command("growd.cli.safe:safe", "Drive all outputs to their safe states, and exit."),
    "check": Command(
        "growd.cli.check:check", "Check the configuration, the devices (--hardware) or the machine (--pi)."
    ),
    "config": Command(
        "growd.cli.config:config", "Print a sample configuration or the reference of all options."
    ),
    "status": Command("growd.cli.status:status", "Show the state of the running daemon."),
    "db": Command("growd.cli.db:db", "Export points, and list those that the database rejected."),
    "backup": Command("growd.cli.backup:backup", "Copy everything a chamber needs into one file."),
    "restore": Command(
        "growd.cli.restore:restore", "Restore a backup into an empty data folder and empty databases."
    ),
    "import": Command("growd.cli.importing:import_", "Import data of other systems: openag_brain."),
    "alert": Command("growd.cli.alert:alert", "Show and acknowledge alerts, and test the channels."),
    "recipe": Command("growd.cli.recipe:recipe", "Check, show, store and run recipes."),
    "simulate": Command(
        "growd.cli.simulate:simulate", "Try a recipe in a simulated chamber: weeks in minutes."
    ),
    "fleet": Command(
        "growd.cli.fleet:fleet", "Enrol devices in a cloud, list them, and publish recipes to them."
    ),
    "note": Command("growd.cli.note:note", "Write and list the journal: notes, photos, yields."),
    "pump": Command("growd.cli.pump:pump", "Calibrate dosing pumps, and list what they give."),
    "driver": Command("growd.cli.driver:driver", "List, test and write drivers of your own."),
    "install": Command("growd.cli.install:install", "Install growd as a systemd service."),
    "setup-pi": Command(
        "growd.cli.setup_pi:setup_pi", "Show and write the boot settings of a Raspberry Pi for the chamber."
    ),
    "upgrade": Command("growd.cli.upgrade:upgrade", "Upgrade the service, with a trial and a way back."),
    "uninstall": Command("growd.cli.install:uninstall", "Remove the systemd service."),
    "cloud": Command("growd.cli.cloud:cloud", "Set up and run the cloud side of many devices."),
    "topic": Command("growd.cli.topic:topic", "Read, publish and measure topics of the running daemon."),
    "param": Command("growd.cli.param:param", "Read and set parameters of the running daemon."),
    "service": Command("growd.cli.service:service", "Call services of the running daemon."),
    "node": Command(
        "growd.cli.node:node",
        "List and describe the nodes (sensors, controllers, actuators ...) of the running daemon.",
    ),
    "completion": Command(
        "growd.cli.completion:completion",
        "Print the completion script for a shell.",
    ),
}


@click.group(cls=LazyGroup, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="growd")
def main() -> None:
    """growd, the daemon of a growing chamber: it reads sensors, runs recipes and drives outputs."""
