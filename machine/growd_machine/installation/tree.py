"""A version folder: a complete growd that runs from wherever it lies. Needs the standard library alone.

bin/growd      the launcher
lib/           Python packages; compiled modules of several Pythons have different names
node/          Node, if growd brings its own
version.json   written last: a folder without it is incomplete
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd.runtime.files import sync_folder, write_atomically
from growd_machine.installation.machine import InstallError
from growd_machine.installation.packages import PackageTools

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from growd_machine.installation.machine import Run, Say
    from growd_machine.installation.sources import InstallSource
    from growd_machine.installation.targets import Target

DATABASE: Final = "growd/_couchdb/embedded"
PAGE: Final = "growd/_page"
PART: Final = ".part"
"""What the name of a folder ends with while it is made."""

DOWNLOADS: Final = ".downloads"
"""What the name of the folder ends with that has its downloads until it is made."""

_ROOM_BYTES: Final = 200_000_000  # that the running growd may need; then downloads are not kept

_OF_WHEELS: Final = {"RECORD", "WHEEL", "INSTALLER", "REQUESTED", "direct_url.json"}  # differ between Pythons
_PREBUILT: Final = {"aarch64": "linux-arm64", "x86_64": "linux-x64"}  # Node's names
_METADATA: Final = "Metadata-Version: 2.1\nName: growd\nVersion: {version}\n"
_LAUNCHER: Final = '''\
#!{interpreter} -I
"""growd {version}, with the packages beside it."""

import os
import sys

PYTHONS = {pythons}
HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

own = "%d.%d" % sys.version_info[:2]
if own not in PYTHONS:
    stream = os.fstat(2)
    is_journal = os.environ.get("JOURNAL_STREAM") == "%d:%d" % (stream.st_dev, stream.st_ino)
    sys.exit("%sgrowd {version} in %s is for Python %s, and %s is Python %s: install growd again"
             % ("<3>" if is_journal else "", HOME, " or ".join(PYTHONS), sys.executable, own))
if os.path.exists(HOME + "/node/bin/node"):
    os.environ["PATH"] = HOME + "/node/bin:" + os.environ.get("PATH", "/usr/bin:/bin")
sys.path.insert(0, HOME + "/lib")
sys.path.append("/opt/growd/drivers/lib")  # of `growd install --with`

from growd_cli.__main__ import main

main()
'''


@dataclass(frozen=True)
class VersionTree:
    """What a version folder has: growd from `source` for a type of machine and versions of Python."""

    source: InstallSource
    machine: str
    pythons: tuple[str, ...]
    with_database: bool = True
    """The embedded database, which needs Node."""
    with_node: bool = True
    """Node; without it that of the machine is used."""
    interpreter: str = "/usr/bin/python3"

    @property
    def digest(self) -> str:
        """It changes with the content of the folder."""
        options = [self.machine, self.pythons, self.with_database, self.with_node, self.interpreter]
        return hashlib.sha256(f"{self.source.digest} {json.dumps(options)}".encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the folder, the same wherever it is built."""
        return f"{self.source.version}-{self.digest[:8]}"

    def build(
        self, folder: Path, run: Run, say: Say = lambda _: None, *, with_byte_code: bool = True
    ) -> None:
        """Build the version at `folder`, which appears complete or not at all. Raises `InstallError`.

        Byte code is for the Pythons of this machine, so a folder for other machines is built without it.
        After a failure another try uses what was downloaded.
        """
        downloads = folder.with_name(folder.name + DOWNLOADS)
        part = folder.with_name(folder.name + PART)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            tools = PackageTools(self.source, part / "tmp", downloads, run, say)
            self._add_packages(tools, part / "lib")
            self._add_growd(part)
            _complete_page(tools, part / "lib" / PAGE)
            if self.with_database:
                tools.install_npm("the embedded database", part / "lib" / DATABASE)
                _remove_other_machines(part / "lib" / DATABASE, _PREBUILT[self.machine])
            if self.with_node:
                tools.install_node(part / "node", self.machine)
            shutil.rmtree(part / "tmp", ignore_errors=True)
            if with_byte_code:
                compile_for_this_machine(part, self.pythons, run, say)
            finish(part, self._version())
            put_in_place(part, folder)
            shutil.rmtree(downloads, ignore_errors=True)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            if shutil.disk_usage(part.parent).free < _ROOM_BYTES:
                shutil.rmtree(downloads, ignore_errors=True)
            raise

    def _version(self) -> dict[str, object]:
        return {
            "version": self.source.version,
            "digest": self.digest,
            "pythons": list(self.pythons),
            "machine": self.machine,
            "database": self.with_database,
        }

    def _add_packages(self, tools: PackageTools, library: Path) -> None:
        for python in self.pythons:
            packages = tools.scratch / f"python{python}"
            tools.install_python("run", packages, self.machine, python)
            merge(packages, library)
            shutil.rmtree(packages)

    def _add_growd(self, folder: Path) -> None:
        metadata = f"growd-{self.source.version}.dist-info/METADATA"
        for name, content in (
            (metadata, _METADATA.format(version=self.source.version).encode()),
            *self.source.files(),
        ):
            file = folder / "lib" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        launcher = folder / "bin/growd"
        launcher.parent.mkdir()
        launcher.write_text(
            launcher_text(self.source.version, self.pythons, self.interpreter), encoding="utf-8"
        )
        launcher.chmod(0o755)


def launcher_text(version: str, pythons: tuple[str, ...], interpreter: str) -> str:
    """The program bin/growd. It starts with any Python 3, to refuse one that it is not made for."""
    return _LAUNCHER.format(version=version, pythons=repr(pythons), interpreter=interpreter)


def merge(packages: Path, library: Path) -> None:
    """Move the files of `packages` into `library`. Raises `InstallError` on a file with other content."""
    for file in sorted(packages.rglob("*")):
        place = library / file.relative_to(packages)
        if file.is_dir() or _is_left_out(file) or file.parent == packages / "bin":  # names the Python of pip
            continue
        if place.exists() and not filecmp.cmp(file, place, shallow=False):
            package = place.relative_to(library).parts[0]
            raise InstallError(f"the package {package} has another {place.name} for another Python")
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)


def _complete_page(tools: PackageTools, page: Path) -> None:
    """Add the libraries of the page, with their licences, if the source does not contain all of them."""
    modules = page / "node_modules"
    served = {modules / name for name in json.loads((page / "package.json").read_bytes())["vendor"].values()}
    if all(file.exists() for file in served):
        return
    tools.install_npm("the libraries of the page", page)
    packages = {modules / file.relative_to(modules).parts[0] for file in served}
    for path in sorted(modules.rglob("*"), reverse=True):  # what is in a folder before it
        is_licence = path.name.endswith(("LICENSE", "LICENSE.txt")) and not packages.isdisjoint(path.parents)
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif not is_licence and path not in served:
            path.unlink()


def _is_left_out(file: Path) -> bool:
    """What differs between the wheels of one package for several Pythons, and is not used."""
    is_list_of_parts = file.parent.name == "sboms" and file.parent.parent.suffix == ".dist-info"  # PEP 770
    return is_list_of_parts or (file.parent.suffix == ".dist-info" and file.name in _OF_WHEELS)


def _remove_other_machines(database: Path, kept: str) -> None:
    for prebuilt in database.glob("node_modules/**/prebuilds/*"):
        if prebuilt.name != kept:
            shutil.rmtree(prebuilt)


def compile_for_this_machine(folder: Path, pythons: Iterable[str], run: Run, say: Say) -> None:
    """Compile byte code for each of `pythons` that this machine has; without it growd only starts slowly.

    It is never compared with its source, whose time a copy changes: the source does not change.
    """
    jobs = "0" if Path("/dev/shm").is_dir() else "1"  # noqa: S108  several jobs share memory
    options = ("-q", "-j", jobs, "--invalidation-mode", "unchecked-hash", "-s", str(folder))
    for python in pythons:
        if program := shutil.which(f"python{python}"):
            say(f"  compiling for Python {python}")
            with suppress(InstallError):  # pyenv has programs that only fail
                run([program, "-I", "-m", "compileall", *options, str(folder / "lib")])


def finish(folder: Path, version: Mapping[str, object]) -> None:
    """Let all users read the folder, and write version.json when all other files are on disk."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    os.sync()
    write_atomically(folder / "version.json", (json.dumps(version, indent=2) + "\n").encode())
    (folder / "version.json").chmod(0o644)


def put_in_place(part: Path, folder: Path) -> None:
    """Rename a finished folder; an unusable one of that name is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    sync_folder(folder.parent)


def is_usable(folder: Path, target: Target) -> bool:
    """Whether a folder has a complete version for a kind of machine."""
    try:
        known = json.loads((folder / "version.json").read_text(encoding="utf-8"))
        return bool(known["machine"] == target.machine and target.python in known["pythons"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
