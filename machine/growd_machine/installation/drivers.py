"""Packages with drivers that `growd install --with` adds to the installation.

They are in a folder of their own beside the versions, so every version of growd has them, after an upgrade
and on the way back, also without a network. The launcher of a version puts the folder behind growd's own
packages, which it can't replace.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd_machine.installation.machine import PROGRAM, InstallError
from growd_machine.installation.packages import PackageTools
from growd_machine.installation.steps import Step, link_atomically
from growd_machine.installation.tree import PART, compile_for_this_machine, finish, put_in_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd_machine.installation.machine import Machine
    from growd_machine.installation.options import InstallChoices
    from growd_machine.installation.sources import InstallSource
    from growd_machine.installation.targets import Target

DRIVERS: Final = PROGRAM / "drivers"
"""A link to the folder with the present packages."""

_RECORD: Final = "version.json"
_PINNED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
_WHEEL: Final = re.compile(r"([A-Za-z0-9._]+)-([A-Za-z0-9.!+_]+)(-[^-]+){3,4}\.whl")
_NO_DRIVERS: Final = ("growd", "pip")


@dataclass(frozen=True)
class DriverPackage:
    """A package with drivers. `digest` is that of a wheel file, "" for one of the package index."""

    name: str
    version: str
    digest: str = ""
    wheel: Path | None = None

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def installed_packages(machine: Machine) -> list[DriverPackage]:
    """The packages that `growd install --with` has installed, without what they need."""
    try:
        known = json.loads((machine.at(DRIVERS) / _RECORD).read_bytes())["packages"]
        return [DriverPackage(str(name), str(version), str(digest)) for name, version, digest in known]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def driver_steps(
    machine: Machine, source: InstallSource, target: Target, choices: InstallChoices
) -> list[Step]:
    """Install the packages of the last installation and of `choices`. Raises `InstallError`."""
    wanted = _wanted(installed_packages(machine), choices)
    if not wanted and not machine.at(DRIVERS).is_symlink():
        return []
    content = [
        target.python,
        target.machine,
        sorted((each.name, each.version, each.digest) for each in wanted),
    ]
    name = f"{DRIVERS.name}-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]}"
    folder, link = machine.at(PROGRAM / name), machine.at(DRIVERS)
    if wanted:
        words = f"install the drivers {', '.join(map(str, wanted))} in {folder}"
    else:
        words = f"leave no drivers in {folder}"
    make = partial(_make, machine, source, target, wanted, folder)
    return [
        Step(words, make, (folder / _RECORD).exists),
        Step(
            f"link {link} to {name}",
            partial(link_atomically, link, name),
            lambda: link.is_symlink() and str(link.readlink()) == name,
        ),
        Step("remove drivers of earlier installations", partial(_clean, machine, name), is_change=False),
    ]


def _wanted(present: Sequence[DriverPackage], choices: InstallChoices) -> list[DriverPackage]:
    packages = {_normal(each.name): each for each in present}
    for given in choices.without_packages:
        if packages.pop(_normal(given), None) is None:
            there = ", ".join(each.name for each in present) or "none"
            raise InstallError(f"--without {given}: there is no such package with drivers; there is {there}")
    for given in choices.with_packages:
        package = _package(given)
        was = packages.get(_normal(package.name))
        is_same = was is not None and package.wheel is None and was.version == package.version
        packages[_normal(package.name)] = was if was is not None and is_same else package
    return list(packages.values())


def _package(given: str) -> DriverPackage:
    """A package as given: PACKAGE==VERSION or a wheel file. Raises `InstallError`."""
    file = Path(given)
    pinned = _PINNED.fullmatch(given)
    named = pinned or _WHEEL.fullmatch(file.name)
    if named is None:
        raise InstallError(f"--with must be PACKAGE==VERSION or a wheel file, got {given!r}")
    if _normal(named[1]) in _NO_DRIVERS:
        raise InstallError(f"--with {given}: {named[1]} is no package with drivers; growd brings its own")
    if pinned:
        return DriverPackage(pinned[1], pinned[2])
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise InstallError(f"--with {given}: {error.strerror}") from None
    return DriverPackage(named[1], named[2], digest, file)


def _normal(name: str) -> str:
    """The name of a package as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _make(
    machine: Machine, source: InstallSource, target: Target, wanted: Sequence[DriverPackage], folder: Path
) -> None:
    """Make the folder, which appears complete or not at all. Raises `InstallError`."""
    part = folder.with_name(folder.name + PART)
    shutil.rmtree(part, ignore_errors=True)
    wheels = part / "wheels"
    wheels.mkdir(parents=True)
    (part / "lib").mkdir()
    try:
        for old in (machine.at(DRIVERS) / "wheels").glob("*.whl"):
            shutil.copy2(old, wheels)
        for each in wanted:
            if each.wheel is not None:
                shutil.copyfile(each.wheel, wheels / each.wheel.name)
        if wanted:
            tools = PackageTools(source, part / "tmp", part / "tmp", machine.run, machine.say)
            names = [str(each) for each in wanted]
            tools.install_drivers(names, wheels, part / "lib", target.machine, target.python)
            compile_for_this_machine(part, (target.python,), machine.run, machine.say)
        shutil.rmtree(part / "tmp", ignore_errors=True)
        finish(part, {"packages": [[each.name, each.version, each.digest] for each in wanted]})
        put_in_place(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _clean(machine: Machine, used: str) -> None:
    for folder in machine.at(PROGRAM).glob(f"{DRIVERS.name}-*"):
        if folder.name != used:
            shutil.rmtree(folder, ignore_errors=True)
