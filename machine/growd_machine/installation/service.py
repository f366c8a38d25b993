"""The steps that install growd as a systemd service, and remove it.

The record of what is installed is written last.
"""

from __future__ import annotations

import json
import re
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd.runtime.files import read_text
from growd_machine.installation.bundle import refuse_other_machines, unpack_bundle
from growd_machine.installation.couchdb import couchdb_is_installed, couchdb_removal_steps, couchdb_steps
from growd_machine.installation.drivers import driver_steps
from growd_machine.installation.machine import (
    COMMAND,
    CONFIGURATION,
    DATA,
    FILES,
    PLACES,
    PROGRAM,
    RECORD,
    SOCKET_WANTED,
    UPGRADE_WANTED,
    WANTED,
    WATCHDOG,
    InstallError,
    ProgramError,
)
from growd_machine.installation.options import PROFILE
from growd_machine.installation.packages import machine_npm
from growd_machine.installation.running import start_service
from growd_machine.installation.steps import (
    Step,
    command_step,
    digest_of,
    file_removal_step,
    file_step,
    holds,
    link_step,
    removal_step,
    write,
)
from growd_machine.installation.tree import PART, VersionTree, is_usable
from growd_machine.installation.versions import (
    CURRENT,
    PREVIOUS,
    VERSIONS,
    choose,
    linked,
    remove_unused,
    version_at,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd_machine.installation.machine import Machine
    from growd_machine.installation.options import InstallChoices
    from growd_machine.installation.sources import InstallSource
    from growd_machine.installation.targets import Target

_ADVICE: Final = (
    "An older growd can't read data of a newer one, and refuses to start. "
    "--allow-downgrade installs it anyway"
)


def refuse_older(machine: Machine, source: InstallSource) -> None:
    """Raise `InstallError` if `source` is older than the installed version."""
    installed = str(machine.record().get("version", ""))
    if installed and _number(source.version) < _number(installed):
        raise InstallError(f"growd {source.version} is older than the installed {installed}. {_ADVICE}")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


class NewVersion(NamedTuple):
    """The version to install: its folder in the machine, its digest, and the step that makes it."""

    folder: Path
    digest: str
    step: Step


def install_steps(
    machine: Machine, source: InstallSource, target: Target, choices: InstallChoices
) -> list[Step]:
    """The steps in order; all that may fail come before the first that changes the running service.

    A profile, a socket, a hardware watchdog or a CouchDB of the last installation stays. With the part
    "service" or "configuration" only the steps of this part.
    """
    was = machine.record()
    placed = machine.recorded_files()
    with_socket = choices.with_socket or SOCKET_WANTED in placed
    with_watchdog = choices.with_watchdog or WATCHDOG in placed
    profile = _profile(machine, choices)
    text = source.profile(profile)
    files, links = _placed(machine, source, with_socket=with_socket, with_watchdog=with_watchdog)
    version = new_version(machine, source, target, choices)
    folder = version.folder
    record = {
        "version": source.version,
        "digest": version.digest,
        "profile": profile,
        "configuration": was.get("configuration") if choices.only == "service" else digest_of(text),
        "files": [str(place) for place in (*files, *links)],
    }
    placing = [file_step(machine, place, content) for place, content in files.items()] + _accounts(machine)
    linking = [link_step(machine, place, target) for place, target in links.items()]
    recorded = json.dumps(record, indent=2) + "\n"
    recording = file_step(machine, RECORD, recorded, "write the record of the installation to")
    if choices.only == "service":
        return [*placing, *linking, recording]
    if choices.only == "configuration":
        return [*_configuration(machine, text, was), recording]
    steps = [removal_step(path) for path in machine.folder_at(VERSIONS).glob(f"*{PART}")]
    steps += [version.step, *driver_steps(machine, source, target, choices)]
    steps += [*_checks(machine, folder), *placing]
    steps += _configuration(machine, text, was)
    if _with_couchdb(machine, choices):
        shipped = {digest_of(text), str(was.get("configuration", ""))}
        steps += couchdb_steps(machine, source, shipped, folder / "bin/growd")
    steps += [_switching(machine, folder), *linking, recording]
    if machine.is_live:
        is_news = not all(step.is_done() for step in steps if step.is_change)
        steps += _start(machine, is_news=is_news, with_socket=with_socket, with_watchdog=with_watchdog)
    return [*steps, *_cleaning(machine)]


def _placed(
    machine: Machine, source: InstallSource, *, with_socket: bool, with_watchdog: bool
) -> tuple[dict[Path, str], dict[Path, str]]:
    """The files with their content, and the links with their targets."""
    files = {place: source.unit(name) for name, place in PLACES.items()}
    if with_watchdog:
        files[WATCHDOG] = source.unit(WATCHDOG.name)
    links = {WANTED: "../growd.service", UPGRADE_WANTED: "../growd-upgrade.service"}
    if with_socket:
        links[SOCKET_WANTED] = "../growd.socket"
    if _is_ours(machine):
        links[COMMAND] = f"/{CURRENT}/bin/growd"
    return files, links


def _switching(machine: Machine, folder: Path) -> Step:
    return Step(
        f"make {folder} the current version",
        lambda: _switch(machine, folder),
        lambda: (current := linked(machine, CURRENT)) is not None and current.folder == folder,
    )


def package_steps(
    machine: Machine, source: InstallSource, target: Target, choices: InstallChoices
) -> list[Step]:
    """The steps for drivers beside a growd of the Debian package."""
    steps = driver_steps(machine, source, target, choices)
    is_news = not all(step.is_done() for step in steps if step.is_change)
    if machine.is_live and is_news:
        steps.append(Step("restart growd.service", partial(start_service, machine, restart=True)))
    return steps


def _profile(machine: Machine, choices: InstallChoices) -> str:
    return choices.profile or str(machine.record().get("profile", PROFILE))


def _with_couchdb(machine: Machine, choices: InstallChoices) -> bool:
    return choices.with_couchdb or couchdb_is_installed(machine)


def new_version(
    machine: Machine, source: InstallSource, target: Target, choices: InstallChoices
) -> NewVersion:
    """The version that a source becomes on this machine, and how. Raises `InstallError`."""
    versions = machine.folder_at(VERSIONS)
    if source.kind == "version":
        if source.path.resolve().parent != versions.resolve():
            raise InstallError(
                f"{source.path} is no version in {versions}: name a checkout, a wheel or a bundle"
            )
        folder = versions / source.path.name
        return NewVersion(folder, source.digest, Step(f"use {folder}", lambda: None, lambda: True))
    if source.kind == "bundle":
        folder, digest = versions / f"{source.version}-{source.digest[:8]}", source.digest
        refuse_other_machines(source.version_file(), target, source.path)
        words = f"unpack growd {source.version} into {folder}"
        make = partial(unpack_bundle, source.path, folder, target, machine)
    else:
        profile_text = source.profile(_profile(machine, choices))
        with_couchdb = _with_couchdb(machine, choices)
        tree = _tree(machine, source, target, profile_text, with_couchdb=with_couchdb)
        folder, digest = versions / tree.name, tree.digest
        words = f"build growd {source.version} from the {source.kind} {source.path} in {folder}"
        make = partial(tree.build, folder, machine.run, machine.say)
    return NewVersion(folder, digest, Step(words, make, lambda: is_usable(folder, target)))


def _tree(
    machine: Machine, source: InstallSource, target: Target, profile_text: str, *, with_couchdb: bool
) -> VersionTree:
    """The embedded database unless a CouchDB is configured, and Node unless the machine has one."""
    try:
        text = read_text(machine.at(CONFIGURATION / "growd.toml"))
    except (OSError, ValueError):
        text = profile_text
    with_database = not couchdb_url(text) and not with_couchdb
    return VersionTree(
        source,
        target.machine,
        (target.python,),
        with_database=with_database,
        with_node=with_database and (machine.root != Path("/") or machine_npm() is None),
        interpreter=target.interpreter,
    )


def couchdb_url(text: str) -> str:
    """The address of the CouchDB in a configuration; "" if there is none or the text is invalid."""
    try:
        return str(tomllib.loads(text)["couchdb"]["url"])
    except (ValueError, KeyError, TypeError):
        return ""


def uninstall_steps(machine: Machine, *, purge: bool) -> list[Step]:
    """The steps in order. Configuration and data stay unless `purge`."""
    record, placed, steps = machine.record(), machine.recorded_files(), []
    if record and machine.is_live:
        units = ("growd.socket", "growd.service")
        steps.append(command_step(machine, "stop growd", "systemctl", "stop", *units))
    steps += [file_removal_step(machine.at(place)) for place in FILES if place in placed]
    if record and machine.is_live:
        steps.append(command_step(machine, "reload systemd's units", "systemctl", "daemon-reload"))
        if WATCHDOG in placed:
            steps.append(_watchdog_step(machine, "stop"))
    steps += couchdb_removal_steps(machine, purge=purge)
    if purge:
        steps += [removal_step(machine.at(CONFIGURATION)), removal_step(machine.at(DATA))]
    if record:
        steps.append(removal_step(machine.at(PROGRAM)))
    return steps


def _checks(machine: Machine, folder: Path) -> list[Step]:
    """What the new version says of the configuration; a version for another machine can't be asked."""
    configuration = machine.at(CONFIGURATION / "growd.toml")
    if machine.root != Path("/") or not configuration.exists():
        return []
    check = partial(_check_configuration, machine, folder, configuration)
    return [Step(f"check the configuration {configuration}", check, is_change=False)]


def _check_configuration(machine: Machine, folder: Path, configuration: Path) -> None:
    try:
        machine.run([str(folder / "bin/growd"), "check", "--config", str(configuration)])
    except ProgramError as error:
        cause = error.cause.removeprefix("growd: ")
        raise InstallError(
            f"the new version refuses the configuration, nothing was changed: {cause}"
        ) from None


def _is_ours(machine: Machine) -> bool:
    """Whether `COMMAND` is free, or the link of an installation; somebody else's program stays."""
    command = machine.at(COMMAND)
    return not command.exists() or (command.is_symlink() and PROGRAM.name in command.readlink().parts)


def _start(machine: Machine, *, is_news: bool, with_socket: bool, with_watchdog: bool) -> list[Step]:
    return [
        command_step(machine, "reload systemd's units", "systemctl", "daemon-reload"),
        *([_watchdog_step(machine, "start")] * with_watchdog),
        *([command_step(machine, "open growd's socket", "systemctl", "start", "growd.socket")] * with_socket),
        Step(
            f"{'restart' if is_news else 'start'} growd.service",
            partial(start_service, machine, restart=is_news),
        ),
    ]


def _cleaning(machine: Machine) -> list[Step]:
    """Last, since a growd of an earlier version runs until the restart."""
    return [
        link_step(machine, PROGRAM / "bin", f"{CURRENT.name}/bin"),
        Step("remove versions before the previous one", partial(remove_unused, machine)),
    ]


def _switch(machine: Machine, folder: Path) -> None:
    was = linked(machine, CURRENT)
    if was is not None and was.folder != folder:
        choose(machine, PREVIOUS, was)
    choose(machine, CURRENT, version_at(folder))


def _accounts(machine: Machine) -> list[Step]:
    if not machine.is_live:
        return []
    sysusers, tmpfiles = (f"/{PLACES[f'growd.{name}.conf']}" for name in ("sysusers", "tmpfiles"))
    return [
        command_step(machine, "create the user growd and its groups", "systemd-sysusers", sysusers),
        command_step(machine, "create growd's folders", "systemd-tmpfiles", "--create", tmpfiles),
        command_step(machine, "reload udev's rules", "udevadm", "control", "--reload"),
        command_step(machine, "apply the udev rules to the devices", "udevadm", "trigger", "--action=change"),
    ]


def _configuration(machine: Machine, text: str, was: Mapping[str, Any]) -> list[Step]:
    """The owner's file is never overwritten; a newer one is written beside it."""
    file = machine.at(CONFIGURATION / "growd.toml")
    if not file.exists():
        return [file_step(machine, CONFIGURATION / "growd.toml", text, "write the configuration")]
    beside = machine.at(CONFIGURATION / "growd.toml.new")

    keeping = Step(f"keep the configuration {file}", lambda: None, lambda: True)
    if was.get("configuration") == digest_of(text) or holds(file, text):
        return [keeping]
    words = f"write the new shipped configuration to {beside}"
    return [keeping, Step(words, lambda: write(beside, text), lambda: holds(beside, text))]


def _watchdog_step(machine: Machine, verb: str) -> Step:
    """Re-execute systemd, so that it reads its own configuration; services keep running."""
    words = f"make systemd {verb} feeding the hardware watchdog"
    return command_step(machine, words, "systemctl", "daemon-reexec")
