"""A bundle: a version folder in one file, which Python runs to install it. No network is needed."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from growd_machine.installation.machine import InstallError
from growd_machine.installation.sources import BUNDLED, intact, version_information
from growd_machine.installation.targets import ARCHITECTURES
from growd_machine.installation.tree import PART, compile_for_this_machine, finish, put_in_place

if TYPE_CHECKING:
    from growd_machine.installation.machine import Machine
    from growd_machine.installation.targets import Target

_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the same for all files, so that the same content is the same bundle
_INFORMATION: Final = "version.json"
_MARGIN: Final = 1.5  # byte code comes to the files
_MAIN: Final = '''\
"""Installs the growd in this file: sudo python3 FILE. --help describes the options."""

import sys

if sys.version_info < (3, 11):
    sys.exit("growd needs Python 3.11 or newer; this is Python %d.%d" % sys.version_info[:2])
sys.path[0] += "/version/lib"

try:
    from growd_machine.installation.__main__ import main
except Exception as error:
    sys.exit("growd: %s is damaged: %s" % (sys.argv[0], error))

main()
'''


def write_bundle(version: Path, file: Path) -> None:
    """Write the bundle of a version folder that has no byte code. The same folder gives the same bytes."""
    part = file.with_name(file.name + PART)
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(_entry("__main__.py", 0o644), _MAIN)
        for path in sorted(version.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                continue
            entry = _entry(f"{BUNDLED}/{path.relative_to(version)}", path.lstat().st_mode)
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            archive.writestr(entry, content)
    part.replace(file)


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.create_system = 3  # Unix: the mode is in the upper half
    entry.external_attr = (mode | (0 if stat.S_IFMT(mode) else stat.S_IFREG)) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def unpack_bundle(file: Path, folder: Path, target: Target, machine: Machine) -> None:
    """Unpack the version of a bundle to `folder`, which appears complete or not at all."""
    part = folder.with_name(folder.name + PART)
    shutil.rmtree(part, ignore_errors=True)
    try:
        information = _unpack_files(file, part)
        compile_for_this_machine(part, (target.python,), machine.run, machine.say)
        finish(part, information)
        put_in_place(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def refuse_other_machines(information: dict[str, Any], target: Target, file: Path) -> None:
    """Raise `InstallError` if the version of a bundle can't run there."""
    made_for, here = (ARCHITECTURES.get(name, name) for name in (information["machine"], target.machine))
    if made_for != here:
        raise InstallError(
            f"{file.name} is for {made_for}, and this machine is {here}: take the bundle for {here}"
        )
    if target.python not in information["pythons"]:
        known = " or ".join(information["pythons"])
        raise InstallError(f"{file.name} is for Python {known}, and this machine has Python {target.python}")


def _check_space(needed: float, part: Path) -> None:
    part.parent.mkdir(parents=True, exist_ok=True)
    free, needed = shutil.disk_usage(part.parent).free, needed * _MARGIN
    if free < needed:
        raise InstallError(
            f"{part.parent} has {free / 1e6:.0f} MB free, and {needed / 1e6:.0f} MB are needed"
        )


def _unpack_files(file: Path, part: Path) -> dict[str, Any]:
    """Unpack all but version.json, and return its content. Links come last: no file goes through one."""
    with intact(file), zipfile.ZipFile(file) as archive:
        information = version_information(archive.read(f"{BUNDLED}/{_INFORMATION}"))
        entries = [entry for entry in archive.infolist() if entry.filename.startswith(f"{BUNDLED}/")]
        _check_space(sum(entry.file_size for entry in entries), part)
        part.mkdir()
        for entry in sorted(entries, key=_is_link):
            name = PurePosixPath(entry.filename).relative_to(BUNDLED)
            if name != PurePosixPath(_INFORMATION):
                _unpack(archive, entry, part, name)
    return information


def _is_link(entry: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(entry.external_attr >> 16)


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, part: Path, name: PurePosixPath) -> None:
    """Raises ValueError if the entry leads out of the folder `part`."""
    place = part / name
    if ".." in name.parts:
        raise ValueError(f"{name} leads out of the version")
    place.parent.mkdir(parents=True, exist_ok=True)
    if _is_link(entry):
        target = os.fsdecode(archive.read(entry))
        if not Path(os.path.realpath(place.parent / target)).is_relative_to(os.path.realpath(part)):
            raise ValueError(f"the link {name} leads out of the version")
        place.symlink_to(target)
        return
    with archive.open(entry) as source, place.open("xb") as copy:
        shutil.copyfileobj(source, copy)
    place.chmod(stat.S_IMODE(entry.external_attr >> 16))
