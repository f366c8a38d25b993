"""The machine to install on: its file system, its programs, and where the files of growd are.

`root` is the folder with the file system of the machine, "/" for this one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PROGRAM: Final = Path("opt/growd")
CONFIGURATION: Final = Path("etc/growd")
DATA: Final = Path("var/lib/growd")
RECORD: Final = PROGRAM / "installed.json"
WANTED: Final = Path("etc/systemd/system/multi-user.target.wants/growd.service")
SOCKET_WANTED: Final = Path("etc/systemd/system/sockets.target.wants/growd.socket")
PLACES: Final = {
    "growd.service": Path("etc/systemd/system/growd.service"),
    "growd.socket": Path("etc/systemd/system/growd.socket"),
    "growd.sysusers.conf": Path("etc/sysusers.d/growd.conf"),
    "growd.tmpfiles.conf": Path("etc/tmpfiles.d/growd.conf"),
    "growd.rules": Path("etc/udev/rules.d/60-growd.rules"),
}
"""The files in systemd/, and their destinations."""

WATCHDOG: Final = Path("etc/systemd/system.conf.d/growd-watchdog.conf")
"""The drop-in for systemd's own configuration, installed on request."""

Run = Callable[[list[str]], None]


class InstallError(Exception):
    """An installation that can't be done; the message says why."""


def run_program(command: list[str]) -> None:
    """Run a program. Raises `InstallError` with the end of its output."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  our own words
    except OSError as error:
        raise InstallError(f"{command[0]} can't be started: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()[-3:]
        raise InstallError(f"{' '.join(command)} failed: {' '.join(said)}") from None


@dataclass(frozen=True)
class Machine:
    """The file system to install into, and how to run programs."""

    root: Path = Path("/")
    run: Run = run_program

    @property
    def is_live(self) -> bool:
        """Whether it is this machine, and systemd runs on it."""
        return self.root == Path("/") and Path("/run/systemd/system").is_dir()

    def at(self, place: Path) -> Path:
        """The path of a place below `root`. Raises `InstallError` if a link leads out of `root`."""
        path = self.root / place
        folder = path.parent.resolve()
        if not folder.is_relative_to(self.root.resolve()):
            raise InstallError(f"{path} leads out of {self.root}, to {folder}; mount it where it belongs")
        return path

    def record(self) -> dict[str, Any]:
        """The record of the last installation, empty if there is none."""
        try:
            found = json.loads(self.at(RECORD).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
