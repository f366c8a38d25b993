"""The command line: the table of commands. A command's module is imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from growd import __version__
from growd_cli.lazy_group import Command, LazyGroup

COMMANDS: Final = {
    "run": Command(
        "growd_cli.run:run", "Run the daemon until Ctrl-C; list, show and export runs of recipes."
    ),
    "safe": Command("growd_cli.safe:safe", "Drive all outputs to their safe states, and exit."),
    "check": Command(
        "growd_cli.check:check", "Check the configuration, the devices (--hardware) or the machine (--pi)."
    ),
    "config": Command(
        "growd_cli.config:config", "Print a sample configuration or the reference of all options."
    ),
    "status": Command("growd_cli.status:status", "Show the state of the running daemon."),
    "db": Command("growd_cli.db:db", "Export points, print their history, and check a CouchDB."),
    "backup": Command("growd_cli.backup:backup", "Copy everything a chamber needs into one file."),
    "restore": Command(
        "growd_cli.restore:restore", "Restore a backup into an empty data folder and empty databases."
    ),
    "import": Command("growd_cli.importing:import_", "Import data of other systems: openag_brain."),
    "alert": Command("growd_cli.alert:alert", "Show and acknowledge alerts, and test the channels."),
    "recipe": Command("growd_cli.recipe:recipe", "Check, show, store and run recipes."),
    "simulate": Command(
        "growd_cli.simulate:simulate", "Try a recipe in a simulated chamber: weeks in minutes."
    ),
    "fleet": Command(
        "growd_cli.fleet:fleet", "Enrol devices in a cloud, list them, and publish recipes to them."
    ),
    "note": Command("growd_cli.note:note", "Write and list the journal: notes, photos, yields."),
    "camera": Command(
        "growd_cli.camera:camera", "Take and list photos of the cameras, and make a film of them."
    ),
    "pump": Command("growd_cli.pump:pump", "Calibrate dosing pumps, and list what they give."),
    "driver": Command("growd_cli.driver:driver", "List, test and write drivers of your own."),
    "install": Command("growd_cli.install:install", "Install growd as a systemd service."),
    "setup-pi": Command(
        "growd_cli.setup_pi:setup_pi", "Show and write the boot settings of a Raspberry Pi for the chamber."
    ),
    "upgrade": Command("growd_cli.upgrade:upgrade", "Upgrade the service, with a trial and a way back."),
    "uninstall": Command("growd_cli.install:uninstall", "Remove the systemd service."),
    "cloud": Command("growd_cli.cloud:cloud", "Set up and run the cloud side of many devices."),
    "topic": Command("growd_cli.topic:topic", "Read and publish topics of the running daemon."),
    "param": Command("growd_cli.bus_names:param", "Read and set parameters of the running daemon."),
    "service": Command("growd_cli.bus_names:service", "Call services of the running daemon."),
    "node": Command(
        "growd_cli.bus_names:node",
        "List and describe the nodes (sensors, controllers, actuators ...) of the running daemon.",
    ),
    "completion": Command(
        "growd_cli.completion:completion",
        "Print the completion script for a shell.",
    ),
}


@click.group(cls=LazyGroup, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="growd")
def main() -> None:
    """growd, the daemon of a growing chamber: it reads sensors, runs recipes and drives outputs."""
