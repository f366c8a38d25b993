"""`growd completion`: the script that has a shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PROGRAM = "growd"
VARIABLE = "_GROWD_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the script with which a shell completes growd, and the names that the running daemon has.

    For bash: growd completion bash > ~/.local/share/bash-completion/completions/growd
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"there is no completion for {shell}")
    context = click.get_current_context().find_root()
    click.echo(made(context.command, {}, PROGRAM, VARIABLE).source())
