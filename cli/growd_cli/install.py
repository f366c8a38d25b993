"""`growd install` and `growd uninstall`: growd as a systemd service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from growd_cli.options import refuse
from growd_cli.terminal import echo_text
from growd_machine.installation import installer
from growd_machine.installation.machine import InstallError
from growd_machine.installation.options import INSTALL_OPTIONS, PLACE_OPTIONS, InstallChoices
from growd_machine.installation.sources import source_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from growd_machine.installation.options import InstallOption

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


def _with(options: Sequence[InstallOption]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for option in reversed(options):
            settings: dict[str, Any] = {"metavar": option.metavar, "multiple": option.is_repeatable}
            if option.metavar is None:
                settings = {"is_flag": True}
            elif option.name == "root":
                settings |= {"type": _FOLDER, "default": Path("/")}
            add = click.option(
                option.flag, option.name, help=option.help, hidden=option.is_hidden, **settings
            )
            function = add(function)
        return function

    return decorate


@click.command()
@click.argument("source", type=click.Path(path_type=Path), required=False)
@_with(INSTALL_OPTIONS)
def install(*, source: Path | None, **choices: Any) -> None:
    """Install growd as a systemd service from SOURCE, a wheel, bundle or checkout (default: this growd).

    Run it again to update. Existing configuration and data are not changed.
    """
    chosen = InstallChoices(**choices)
    try:
        wanted = source_at(source)
        if wanted.path != source_at(None).path:
            # Another version is installed by its own code, which knows its files and the format of its data.
            program = [sys.executable, "-IB", wanted.program, *chosen.arguments()]
            os.execv(sys.executable, program)  # noqa: S606  what the user named
        installer.install(wanted, chosen, echo_text)
    except InstallError as error:
        refuse(str(error))


@click.command()
@click.option("--purge", is_flag=True, help="Remove configuration and data too.")
@_with(PLACE_OPTIONS)
def uninstall(*, purge: bool, root: Path, dry_run: bool) -> None:
    """Remove the systemd service and the program; configuration, data and the user growd stay."""
    try:
        installer.uninstall(root, echo_text, purge=purge, dry_run=dry_run)
    except InstallError as error:
        refuse(str(error))
