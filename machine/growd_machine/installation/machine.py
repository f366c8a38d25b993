"""The machine to install on: its file system, its programs, and where the files of growd are.

`root` is the folder with the file system of the machine, "/" for this one.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from growd_machine.installation.causes import cause_in

PROGRAM: Final = Path("opt/growd")
CONFIGURATION: Final = Path("etc/growd")
DATA: Final = Path("var/lib/growd")
RECORD: Final = PROGRAM / "installed.json"
LOG: Final = PROGRAM / "install.log"
COMMAND: Final = Path("usr/local/bin/growd")
"""The link by which people start growd."""

WANTED: Final = Path("etc/systemd/system/multi-user.target.wants/growd.service")
UPGRADE_WANTED: Final = Path("etc/systemd/system/multi-user.target.wants/growd-upgrade.service")
SOCKET_WANTED: Final = Path("etc/systemd/system/sockets.target.wants/growd.socket")
PLACES: Final = {
    "growd.service": Path("etc/systemd/system/growd.service"),
    "growd.socket": Path("etc/systemd/system/growd.socket"),
    "growd-upgrade.service": Path("etc/systemd/system/growd-upgrade.service"),
    "growd.sysusers.conf": Path("etc/sysusers.d/growd.conf"),
    "growd.tmpfiles.conf": Path("etc/tmpfiles.d/growd.conf"),
    "growd.rules": Path("etc/udev/rules.d/60-growd.rules"),
}
"""The files in systemd/, and their destinations."""

WATCHDOG: Final = Path("etc/systemd/system.conf.d/growd-watchdog.conf")
"""The drop-in for systemd's own configuration, installed on request."""

FILES: Final = (*PLACES.values(), WATCHDOG, WANTED, UPGRADE_WANTED, SOCKET_WANTED, COMMAND)
"""All that an installation may place outside of `PROGRAM`, `CONFIGURATION` and `DATA`."""

Run = Callable[[list[str]], None]
Say = Callable[[str], None]
"""Gets a line before what may take minutes."""


class InstallError(Exception):
    """An installation that can't be done; the message says why."""


class ProgramError(InstallError):
    """A program failed: `cause` is the line of its output that says why, and the file with all of it."""

    def __init__(self, command: list[str], cause: str) -> None:
        super().__init__(f"{' '.join(command)} failed: {cause}")
        self.cause = cause


def reason_of(error: OSError) -> str:
    """Why the operating system refused something, with the file if it names one."""
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def run_program(command: list[str], log: Path | None = None) -> None:
    """Run a program, with all its output in `log`. Raises `ProgramError`."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  our own words
    except OSError as error:
        raise InstallError(f"{command[0]} can't be started: {error.strerror}") from None
    output = done.stdout + done.stderr
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.is_symlink():
            log.unlink()  # on a foreign card it may lead anywhere
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n{output}")
    if done.returncode:
        more = "" if log is None else f"; all output is in {log}"
        raise ProgramError(command, (cause_in(output) or f"status {done.returncode}") + more)


def ask_program(command: list[str]) -> str:
    """What a program prints, "" if it fails."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return ""


@dataclass(frozen=True)
class Machine:
    """The file system to install into, how to run programs, and who follows what they do."""

    root: Path = Path("/")
    run: Run = run_program
    ask: Callable[[list[str]], str] = ask_program
    say: Say = lambda _: None

    @property
    def is_live(self) -> bool:
        """Whether it is this machine, and systemd runs on it."""
        return self.root == Path("/") and Path("/run/systemd/system").is_dir()

    def at(self, place: Path) -> Path:
        """The path of a place below `root`. Raises `InstallError` if its folder is not in `root`."""
        path = self.root / place
        if place.is_absolute() or ".." in place.parts:
            raise InstallError(f"{place} is no path below {self.root}")
        self._stay_inside(path.parent)
        return path

    def folder_at(self, place: Path) -> Path:
        """The path of a folder below `root`. Raises `InstallError` if it is a link out of `root`."""
        path = self.at(place)
        self._stay_inside(path)
        return path

    def record(self) -> dict[str, Any]:
        """The record of the last installation, empty if there is none."""
        try:
            found = json.loads(self.at(RECORD).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def recorded_files(self) -> set[Path]:
        """Those of `FILES` that the last installation has placed."""
        files = self.record().get("files")
        return {place for place in FILES if isinstance(files, list) and str(place) in files}

    def _stay_inside(self, folder: Path) -> None:
        root, real = (Path(os.path.realpath(path)) for path in (self.root, folder))
        if not real.is_relative_to(root):
            raise InstallError(f"{folder} leads out of {self.root}, to {real}; mount it where it belongs")
