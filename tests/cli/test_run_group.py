"""`growd run` is the daemon, and with a command something else."""

from __future__ import annotations

import click
import pytest

from growd_cli.run import SUBCOMMANDS, run
from support.terminal import typed


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_each_subcommand_of_the_table_exists(name):
    command = run.get_command(click.Context(run), name)
    assert command is not None
    assert command.name == name
    assert SUBCOMMANDS[name].summary == command.get_short_help_str(100)


async def test_options_of_the_daemon_before_a_command_are_refused():
    printed = await typed("run", "--port", "0", "list")
    assert (printed.status, printed.out) == (2, "")
    assert "--port comes after the command list" in printed.err


async def test_a_misspelt_command_starts_no_daemon():
    printed = await typed("run", "lits")
    assert printed.status == 2
    assert "No such command 'lits'. Did you mean 'list'?" in printed.err


async def test_the_help_has_the_options_of_the_daemon_and_the_commands():
    printed = await typed("run", "--help")
    assert printed.status == 0
    assert "--speed" in printed.out
    for name, command in SUBCOMMANDS.items():
        assert f"\n  {name} " in printed.out
        assert command.summary in printed.out
