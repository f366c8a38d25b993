"""What comes before an upgrade touches the running growd: the new version is made, and checked.

The installed version stays as it is if any of this fails.
"""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from growd_machine.installation.data_copy import size_of_files
from growd_machine.installation.growd_service import driver_warnings, output_of
from growd_machine.installation.health import GrowdHealth, ProbeError
from growd_machine.installation.machine import CONFIGURATION, DATA, PROGRAM, InstallError
from growd_machine.installation.service import refuse_older
from growd_machine.installation.upgrade import Upgrade, begin, tidy
from growd_machine.installation.versions import (
    CURRENT,
    PREVIOUS,
    VERSIONS,
    linked,
    refuse_while_upgrading,
    size_of,
    version_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_machine.installation.machine import Machine
    from growd_machine.installation.sources import InstallSource
    from growd_machine.installation.upgrade import DaemonAccess
    from growd_machine.installation.versions import Version

BUILD_S: Final = 3600.0
"""Time limit of making a version: it is fetched over any network."""

MARGIN_BYTES: Final = 50_000_000


@dataclass(frozen=True)
class Preparation:
    """Prepares an upgrade of a machine whose lock this process has; `say` gets a line for each step."""

    machine: Machine
    daemon: DaemonAccess
    say: Callable[[str], None]
    monotonic: Callable[[], float] = time.monotonic

    def upgrade_to(self, source: InstallSource, trial_s: float) -> Upgrade:
        """Make the version of a source, check it, and begin. Raises `InstallError` and OSError."""
        current = self._current()
        refuse_older(self.machine, source)
        self._check_space(current)
        began, earlier = self.monotonic(), self._health()
        self.say(f"Making growd {source.version} beside growd {current.version}.")
        try:
            target = self._made_of(source, current)
            self._check(target)
        except BaseException:
            tidy(self.machine)
            raise
        health = self._health()
        return self._begun(
            current,
            target,
            trial_s,
            before=health,
            points_per_s=_rate(earlier, health, self.monotonic() - began),
            backup=f"{current.version}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}",
        )

    def go_back(self, trial_s: float) -> Upgrade:
        """The same for the previous version."""
        current, target = self._current(), linked(self.machine, PREVIOUS)
        if target is None:
            raise InstallError("there is no previous version to go back to")
        self._check(target)
        return self._begun(current, target, trial_s, before=self._health())

    def _begun(self, current: Version, target: Version, trial_s: float, **known: Any) -> Upgrade:
        source = current.folder.name
        upgrade = Upgrade(
            source=source, target=target.folder.name, began=time.time(), trial_s=trial_s, **known
        )
        begin(self.machine, upgrade, current)
        return upgrade

    def _current(self) -> Version:
        refuse_while_upgrading(self.machine)
        current = linked(self.machine, CURRENT)
        if current is None:
            raise InstallError(f"no growd is installed in {self.machine.at(PROGRAM)}: use growd install")
        tidy(self.machine)
        return current

    def _made_of(self, source: InstallSource, current: Version) -> Version:
        """The new version, made by its own code."""
        root = str(self.machine.root)
        program = [sys.executable, "-I", source.program, "--only", "version", "--root", root]
        target = version_at(Path(output_of(program, BUILD_S, self._say_part).splitlines()[-1]))
        if target.folder == current.folder:
            raise InstallError(f"growd {target.version} of {source.path} is installed already")
        return target

    def _say_part(self, line: str) -> None:
        """Pass on the lines below that of a step."""
        if line.startswith("  "):
            self.say(line)

    def _check_space(self, current: Version) -> None:
        """For a version of the same size, and a copy of the data."""
        needs = {
            self.machine.at(VERSIONS): size_of(current.folder) + MARGIN_BYTES,
            self.machine.at(DATA): size_of_files(self.machine.at(DATA)) + MARGIN_BYTES,
        }
        on_disks: dict[int, int] = {}
        for folder, needed in needs.items():
            if folder.exists():
                disk = folder.stat().st_dev
                on_disks[disk] = on_disks.get(disk, 0) + needed
                free = shutil.disk_usage(folder).free
                if free < on_disks[disk]:
                    wanted = f"{on_disks[disk] / 1e6:.0f} MB"
                    raise InstallError(f"{folder} needs {wanted} of free space, and has {free / 1e6:.0f} MB")

    def _check(self, target: Version) -> None:
        """Let the new version check the configuration. Raises `InstallError`."""
        self.say(f"Checking the configuration with growd {target.version}.")
        file = self.machine.at(CONFIGURATION / "growd.toml")
        try:
            for warning in driver_warnings(target, file):
                self.say(warning)
        except InstallError as error:
            reason = str(error).rpartition(" failed: ")[2].removeprefix("growd: ")
            raise InstallError(f"growd {target.version} can't use the configuration: {reason}") from None

    def _health(self) -> GrowdHealth | None:
        with suppress(ProbeError):
            return self.daemon.health()
        return None


def _rate(earlier: GrowdHealth | None, later: GrowdHealth | None, seconds: float) -> float:
    if earlier is None or later is None or earlier.recorded is None or later.recorded is None or not seconds:
        return 0.0
    return max(0, later.recorded - earlier.recorded) / seconds
