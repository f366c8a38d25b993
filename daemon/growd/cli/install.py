"""`growd install` and `growd uninstall`: growd as a systemd service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from growd.cli.options import refuse
from growd.config.profiles import PROFILES
from growd.installation.machine import CONFIGURATION, DATA, InstallError, Machine
from growd.installation.service import PROFILE, install_steps, refuse_older, uninstall_steps
from growd.installation.sources import source_at

if TYPE_CHECKING:
    from growd.installation.steps import Step

root_option = click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("/"),
    metavar="FOLDER",
    help="Use the file system at FOLDER, for example a mounted card.  [default: /]",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Print the steps without doing them.")


@click.command()
@click.argument("source", type=click.Path(path_type=Path), required=False)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help=f"The initial configuration.  [default: that of the last installation, else {PROFILE}]",
)
@click.option(
    "--socket",
    "with_socket",
    is_flag=True,
    help="Let systemd keep the address open during restarts (socket activation).",
)
@click.option(
    "--hardware-watchdog",
    "with_watchdog",
    is_flag=True,
    help="Let the Pi's hardware watchdog reset the machine if the kernel hangs (RuntimeWatchdogSec=).",
)
@click.option("--allow-downgrade", is_flag=True, help="Allow a version older than the installed one.")
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
    """Install growd as a systemd service from SOURCE, a wheel or a checkout (default: this checkout).

    Run it again to update. Existing configuration and data are not changed.
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
        file = machine.at(CONFIGURATION / "growd.toml")
        click.echo(f"Installed growd {wanted.version}; its configuration is {file}.")


@click.command()
@click.option("--purge", is_flag=True, help="Remove configuration and data too.")
@root_option
@dry_run_option
def uninstall(*, purge: bool, root: Path, dry_run: bool) -> None:
    """Remove the systemd service and the program; configuration, data and the user growd stay."""
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
        click.echo(
            f"{machine.at(CONFIGURATION)} and {machine.at(DATA)} are still there; --purge removes them."
        )


def _check_rights(machine: Machine, *, dry_run: bool) -> None:
    if machine.root == Path("/") and os.geteuid() and not dry_run:
        refuse("this needs root: use sudo")


def _carry_out(steps: list[Step], *, dry_run: bool) -> None:
    """Whatever the umask is, all users may read the files and only root may write them."""
    umask = os.umask(0o022)
    try:
        for step in steps:
            if step.is_done():
                click.echo(f"already done: {step.words}")
            else:
                click.echo(f"would {step.words}" if dry_run else step.words)
                if not dry_run:
                    step.do()
    finally:
        os.umask(umask)
