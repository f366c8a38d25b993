"""The command line: the table of commands. The modules of a command are read when it is called."""

from __future__ import annotations

import importlib
from typing import Final, NamedTuple

import click

from growd import __version__


class Command(NamedTuple):
    """Where a command stands, as "module:name", and what `growd --help` says of it."""

    place: str
    summary: str


COMMANDS: Final = {
    "run": Command("growd.cli.run:run", "Run the daemon until Ctrl-C."),
    "safe": Command("growd.cli.safe:safe", "Drive all outputs to their safe states, and exit."),
    "check": Command("growd.cli.check:check", "Check the configuration, and with --hardware the devices."),
    "config": Command("growd.cli.config:config", "Print a configuration to begin with."),
    "status": Command("growd.cli.status:status", "Show the state of the running daemon."),
    "db": Command("growd.cli.db:db", "Work with the database of points."),
    "alert": Command("growd.cli.alert:alert", "Show open alerts and test the channels."),
    "recipe": Command("growd.cli.recipe:recipe", "Look at recipes before they run."),
    "install": Command(
        "growd.cli.install:install", "Install growd as a service, from a wheel or a checkout."
    ),
    "uninstall": Command("growd.cli.install:uninstall", "Remove what install has installed."),
    "topic": Command("growd.cli.topic:topic", "Read, publish and measure topics of the running daemon."),
    "param": Command("growd.cli.param:param", "Read and set parameters of the running daemon."),
    "service": Command("growd.cli.service:service", "Call services of the running daemon."),
    "node": Command(
        "growd.cli.node:node",
        "Look at the nodes of the running daemon: sensors, controllers, actuators, the store.",
    ),
    "completion": Command(
        "growd.cli.completion:completion",
        "Print the completion script for a shell.",
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are read one by one: to read them all takes a second on a fast machine."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = COMMANDS.get(cmd_name)
        if found is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = found.place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # click looks for similar names among commands it has read
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="growd")
def main() -> None:
    """growd, the daemon inside a growing chamber."""
