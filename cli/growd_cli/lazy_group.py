"""A group of commands whose modules are imported when they are called."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class Command(NamedTuple):
    """A command: its place as "module:name", and its summary in the help of its group."""

    place: str
    summary: str


class LazyGroup(click.Group):
    """A group that imports only the command in use: importing all takes a second on a fast machine."""

    def __init__(self, *args: Any, places: Mapping[str, Command], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._places, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self._places.get(cmd_name)
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
        except click.NoSuchCommand as error:  # click only suggests imported commands
            raise click.NoSuchCommand(error.command_name, possibilities=self._places, ctx=ctx) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = f"{error.message} Options of a command stand after it: {ctx.command_path} COMMAND"
            name = error.option_name
            raise click.NoSuchOption(name, f"{hint} {name}", error.possibilities, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self._places.items()])
