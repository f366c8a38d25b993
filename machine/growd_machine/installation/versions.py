"""The installed versions: folders below versions/, and the links that choose one of them.

Needs the standard library alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd.runtime.files import sync_folder
from growd_machine.installation.machine import PROGRAM, InstallError
from growd_machine.installation.steps import link_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_machine.installation.machine import Machine

VERSIONS: Final = PROGRAM / "versions"
CURRENT: Final = PROGRAM / "current"
"""The version that systemd starts. Renaming this link is the only switch."""

PREVIOUS: Final = PROGRAM / "previous"
UPGRADE: Final = PROGRAM / "upgrade.json"
"""The state of a running upgrade."""

PACKAGE: Final = Path("usr/lib/growd/version.json")
"""Installed by the Debian package."""

_MODE: Final = 0o755
UPGRADING: Final = PROGRAM / "upgrading"
"""The version that carries out an upgrade: the one before it. It exists only while an upgrade runs."""


@dataclass(frozen=True)
class Version:
    """A complete version folder."""

    folder: Path
    version: str

    @property
    def program(self) -> str:
        return str(self.folder / "bin/growd")


def version_at(folder: Path) -> Version:
    """The version in `folder`. Raises `InstallError` if there is none, or an incomplete one."""
    try:
        known = json.loads((folder / "version.json").read_bytes())
        return Version(folder, str(known["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise InstallError(f"{folder} is not a complete version of growd") from None


def linked(machine: Machine, link: Path) -> Version | None:
    """The version that a link chooses; None without a link to a complete one."""
    with suppress(OSError, InstallError):
        return version_at(machine.folder_at(VERSIONS) / machine.at(link).readlink().name)
    return None


def choose(machine: Machine, link: Path, version: Version) -> None:
    """Let a link point to a version; the change is on disk when this returns. Raises OSError."""
    place = machine.at(link)
    target = Path(VERSIONS.name, version.folder.name)
    if place.is_symlink() and place.readlink() == target:
        return
    link_atomically(place, target)


def refuse_package(machine: Machine) -> None:
    """Raise `InstallError` if growd is installed as a Debian package."""
    if machine.at(PACKAGE).exists():
        raise InstallError(
            "growd is installed as a Debian package: use apt, for example "
            "sudo apt install ./growd_VERSION_ARCHITECTURE.deb, or sudo apt remove growd"
        )


def refuse_while_upgrading(machine: Machine) -> None:
    """Raise `InstallError` while an upgrade runs."""
    if machine.at(UPGRADE).exists():
        raise InstallError("an upgrade is running; `growd upgrade` follows it")


@contextmanager
def locked(machine: Machine) -> Iterator[None]:
    """Keep other installations and upgrades out for the body. Raises `InstallError` if one is at work.

    Only root may change versions and links, and all users may read them. Raises OSError.
    """
    folder = machine.folder_at(VERSIONS)
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder.parent, folder):
        if stat.S_IMODE(path.stat().st_mode) != _MODE:  # an installation with another umask has made it
            path.chmod(_MODE)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InstallError("another installation or upgrade of growd is at work") from None
        yield
    finally:
        os.close(descriptor)


def remove_link(machine: Machine, link: Path) -> None:
    """Remove a link; this is on disk when it returns. Raises OSError."""
    machine.at(link).unlink(missing_ok=True)
    sync_folder(machine.at(PROGRAM))


def remove_unused(machine: Machine) -> None:
    """Remove versions and parts of them that no link chooses, and the rests of interrupted writes."""
    used = {found.folder.name for link in (CURRENT, PREVIOUS, UPGRADING) if (found := linked(machine, link))}
    if not used:
        return  # nothing is installed in this layout
    for folder in machine.folder_at(VERSIONS).iterdir():
        if folder.name not in used:
            shutil.rmtree(folder, ignore_errors=True)
    for part in machine.at(PROGRAM).glob("*.part"):
        part.unlink()


def size_of(folder: Path) -> int:
    """Bytes on the disk of a folder's files."""
    return sum(
        os.lstat(Path(path, name)).st_blocks * 512 for path, _, names in os.walk(folder) for name in names
    )
