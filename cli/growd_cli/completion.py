"""`growd completion`: the completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from growd_cli.terminal import echo_text

PROGRAM = "growd"
VARIABLE = "_GROWD_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print a completion script for commands, options and the names in the running daemon.

    \b
    For bash:
      growd completion bash > ~/.local/share/bash-completion/completions/growd
    """  # noqa: D301  click needs the character \\b
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"there is no completion for {shell}")
    context = click.get_current_context().find_root()
    echo_text(made(context.command, {}, PROGRAM, VARIABLE).source())
