"""`growd install` and `growd uninstall`: growd as a service of the system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from growd.cli.options import refuse
from growd.cli.systemd_install import (
    CONFIGURATION,
    DATA,
    PROFILE,
    InstallError,
    Machine,
    install_steps,
    refuse_older,
    source_at,
    uninstall_steps,
)
from growd.config.profiles import PROFILES

if TYPE_CHECKING:
    from growd.cli.systemd_install import Step

root_option = click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/"),
    metavar="FOLDER",
    help="Folder with the file system of the machine, such as a card that is mounted.  [default: /]",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Print each step without doing it.")


@click.command()
@click.argument("source", type=click.Path(path_type=Path), required=False)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help=f"The configuration to begin with.  [default: that of the last time, else {PROFILE}]",
)
@click.option("--socket", "with_socket", is_flag=True, help="Let systemd hold the address over restarts.")
@click.option(
    "--hardware-watchdog",
    "with_watchdog",
    is_flag=True,
    help="Let the Pi's watchdog reset a machine whose kernel hangs (RuntimeWatchdogSec=).",
)
@click.option("--allow-downgrade", is_flag=True, help="Allow an older version than the installed one.")
@root_option
@dry_run_option
def install(
    *,
    source: Path | None,
    profile: str | None,
    with_socket: bool,
    with_watchdog: bool,
    allow_downgrade: bool,
    root: Path,
    dry_run: bool,
) -> None:
    """Install growd as a service, from SOURCE: a wheel or a checkout, by default the one that this is.

    May be repeated. Configuration and data that are there stay as they are.
    """
    machine = Machine(root.absolute())
    _check_rights(machine, dry_run=dry_run)
    try:
        wanted = source_at(source)
        if not allow_downgrade:
            refuse_older(machine, wanted)
        steps = install_steps(machine, wanted, profile, with_socket=with_socket, with_watchdog=with_watchdog)
        _carry_out(steps, dry_run=dry_run)
    except InstallError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename}: {error.strerror}")
    if not dry_run:
        click.echo(f"growd {wanted.version} is installed; its configuration is {_configuration(machine)}.")


@click.command()
@click.option("--purge", is_flag=True, help="Remove configuration and data, too.")
@root_option
@dry_run_option
def uninstall(*, purge: bool, root: Path, dry_run: bool) -> None:
    """Remove what `growd install` has installed; configuration, data and the user growd stay."""
    machine = Machine(root.absolute())
    _check_rights(machine, dry_run=dry_run)
    try:
        steps = uninstall_steps(machine, purge=purge)
        if not steps:
            refuse(f"growd is not installed in {machine.root}")
        _carry_out(steps, dry_run=dry_run)
    except InstallError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename}: {error.strerror}")
    if not purge and not dry_run:
        click.echo(f"{machine.at(CONFIGURATION)} and {machine.at(DATA)} are left; --purge removes them.")


def _check_rights(machine: Machine, *, dry_run: bool) -> None:
    if machine.root == Path("/") and os.geteuid() and not dry_run:
        refuse("only root can do this: sudo growd install")


def _carry_out(steps: list[Step], *, dry_run: bool) -> None:
    """The user growd has to read what is made, and none but root to write it, whatever root's umask is."""
    umask = os.umask(0o022)
    try:
        for step in steps:
            if step.is_done():
                click.echo(f"is so already: {step.words}")
            else:
                click.echo(f"would {step.words}" if dry_run else step.words)
                if not dry_run:
                    step.do()
    finally:
        os.umask(umask)


def _configuration(machine: Machine) -> Path:
    return machine.at(CONFIGURATION / "growd.toml")
