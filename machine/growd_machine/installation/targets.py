"""The kind of machine to install for: its processor and its Python. Needs the standard library alone."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from growd_machine.installation.machine import InstallError

ARCHITECTURES: Final = {"aarch64": "arm64", "x86_64": "amd64"}
"""The machine types that growd's packages are built for, with Debian's names of them."""

PYTHONS: Final = ("3.11", "3.12", "3.13")
"""The Pythons of a bundle."""

OLDEST: Final = (3, 11)
_PYTHON3: Final = Path("usr/bin/python3")
_MACHINES: Final = {62: "x86_64", 183: "aarch64"}  # e_machine of elf(5)
_IS_64_BIT: Final = 2  # EI_CLASS of elf(5)


@dataclass(frozen=True)
class Target:
    """What a version has to run on: type of machine, version of Python, and the path of that Python."""

    machine: str
    python: str
    interpreter: str = f"/{_PYTHON3}"


def target_of(root: Path = Path("/")) -> Target:
    """The target of the file system at `root`, or of this machine if there is no Python in it."""
    python = _resolve(root, _PYTHON3)
    found = re.fullmatch(r"python(\d+)\.(\d+)", python.name)
    if found and (int(found[1]), int(found[2])) >= OLDEST and python.is_file():
        return Target(_machine_of(python), f"{found[1]}.{found[2]}")
    if found and root != Path("/"):
        raise InstallError(f"{root} has Python {found[1]}.{found[2]}; growd needs 3.11 or newer")
    own = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    interpreter = str(own) if root == Path("/") else f"/{_PYTHON3}"
    return Target(_machine_of(own), f"{sys.version_info[0]}.{sys.version_info[1]}", interpreter)


def _resolve(root: Path, place: Path) -> Path:
    """The file at `place` below `root`; a link is followed inside `root`."""
    path = root / place
    for _ in range(8):
        if not path.is_symlink():
            break
        target = path.readlink()
        path = root / target.relative_to("/") if target.is_absolute() else path.parent / target
    return path


def _machine_of(program: Path) -> str:
    """The type of machine of a program: a 64-bit kernel may run 32-bit programs, and `uname` hides that."""
    try:
        with program.open("rb") as file:
            head = file.read(20)
    except OSError:
        head = b""
    if head[:4] != b"\x7fELF":
        return platform.machine()
    machine = _MACHINES.get(int.from_bytes(head[18:20], "little"))
    if machine is None or head[4] != _IS_64_BIT:
        raise InstallError("growd needs a 64-bit system for ARM or x86 (arm64 or amd64)")
    return machine
