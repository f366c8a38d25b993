"""Installs and removes growd, for the command line and for a machine that has nothing but Python."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from growd_machine.installation.growd_service import driver_report
from growd_machine.installation.machine import (
    CONFIGURATION,
    DATA,
    LOG,
    InstallError,
    Machine,
    reason_of,
    run_program,
)
from growd_machine.installation.options import PARTS
from growd_machine.installation.running import wait_for_answer
from growd_machine.installation.service import (
    install_steps,
    new_version,
    package_steps,
    refuse_older,
    uninstall_steps,
)
from growd_machine.installation.targets import target_of
from growd_machine.installation.versions import (
    CURRENT,
    PACKAGE,
    VERSIONS,
    locked,
    refuse_package,
    refuse_while_upgrading,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_machine.installation.machine import Say
    from growd_machine.installation.options import InstallChoices
    from growd_machine.installation.sources import InstallSource
    from growd_machine.installation.steps import Step


def install(source: InstallSource, choices: InstallChoices, say: Say, machine: Machine | None = None) -> None:
    """Install a source, and wait until the service answers. Raises `InstallError`."""
    root = choices.root.absolute()
    _check_rights(root, dry_run=choices.dry_run)
    machine = replace(machine or Machine(root, partial(run_program, log=Machine(root).at(LOG))), say=say)
    if choices.only is not None:
        _install_part(machine, source, choices, say)
        return
    with _changing():
        is_package = machine.at(PACKAGE).exists() and choices.changes_drivers
        if not is_package:
            refuse_package(machine)
        refuse_while_upgrading(machine)
        if not choices.allow_downgrade and not is_package:
            refuse_older(machine, source)
        steps_of = package_steps if is_package else install_steps
        steps = steps_of(machine, source, target_of(root), choices)
        if choices.dry_run:
            _print_steps(steps, say)
            return
        with locked(machine):
            refuse_while_upgrading(machine)  # it may have begun meanwhile
            _carry_out(steps, say)
    file = machine.at(CONFIGURATION / "growd.toml")
    if not is_package:
        start = "" if machine.is_live else " systemd starts it at the next boot."
        say(f"Installed growd {source.version}; its configuration is {file}.{start}")
    if choices.changes_drivers and root == Path("/"):
        for line in driver_report(f"/{PACKAGE.parent if is_package else CURRENT}/bin/growd"):
            say(line)
    if machine.is_live:
        for line in wait_for_answer(machine):
            say(line)


def uninstall(root: Path, say: Say, *, purge: bool, dry_run: bool) -> None:
    """Remove service and program, with `purge` also configuration and data. Raises `InstallError`."""
    machine = Machine(root.absolute())
    _check_rights(machine.root, dry_run=dry_run)
    with _changing():
        refuse_package(machine)
        refuse_while_upgrading(machine)
        steps = uninstall_steps(machine, purge=purge)
        if not steps:
            raise InstallError(f"growd is not installed in {machine.root}")
        if dry_run:
            _print_steps(steps, say)
            return
        with locked(machine) if machine.folder_at(VERSIONS).exists() else nullcontext():
            _carry_out(steps, say)
    if not purge:
        say(f"{machine.at(CONFIGURATION)} and {machine.at(DATA)} are still there; --purge removes them.")


def _install_part(machine: Machine, source: InstallSource, choices: InstallChoices, say: Say) -> None:
    """The caller has the lock. The last line of the output of `version` is the folder."""
    if choices.only not in PARTS:
        raise InstallError(f"--only must be one of {', '.join(PARTS)}, got {choices.only!r}")
    target = target_of(machine.root)
    with _changing():
        if choices.only == "version":
            version = new_version(machine, source, target, choices)
            _carry_out([version.step], say)
            say(str(version.folder))
        else:
            _carry_out(install_steps(machine, source, target, choices), say)


def _check_rights(root: Path, *, dry_run: bool) -> None:
    if not root.is_dir():
        raise InstallError(f"there is no folder {root}")
    if root == Path("/") and os.geteuid() and not dry_run:
        raise InstallError("this needs root: use sudo")


def _print_steps(steps: list[Step], say: Say) -> None:
    for step in steps:
        say(f"already done: {step.words}" if step.is_done() else f"would {step.words}")


def _carry_out(steps: list[Step], say: Say) -> None:
    for step in steps:
        is_done = step.is_done()
        say(f"already done: {step.words}" if is_done else step.words)
        if not is_done:
            step.do()


@contextmanager
def _changing() -> Iterator[None]:
    """All users may read new files, and only root may write them. An OSError is one sentence."""
    umask = os.umask(0o022)
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads the output
    except OSError as error:
        raise InstallError(reason_of(error)) from None
    finally:
        os.umask(umask)
