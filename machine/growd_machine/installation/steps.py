"""Steps of an installation. A step knows whether it is already done, so an installation can be continued."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd.runtime.files import sync_folder, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from growd_machine.installation.machine import Machine


@dataclass(frozen=True)
class Step:
    """A step: what it does in words, and whether it is already done."""

    words: str
    do: Callable[[], None]
    is_done: Callable[[], bool] = lambda: False
    is_change: bool = True
    """Whether a running growd has to start again after it."""


def file_step(machine: Machine, place: Path, content: str, words: str = "write") -> Step:
    """Write a file that another program may read at any time."""
    path = machine.at(place)
    return Step(f"{words} {path}", lambda: write(path, content), lambda: holds(path, content))


def link_step(machine: Machine, place: Path, target: str) -> Step:
    """Make a symbolic link."""
    path = machine.at(place)

    def make() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        link_atomically(path, target)

    words = f"link {path} to {target}"
    return Step(words, make, lambda: path.is_symlink() and str(path.readlink()) == target)


def file_removal_step(path: Path) -> Step:
    """Remove a file or a link."""
    return Step(f"remove {path}", path.unlink, lambda: not os.path.lexists(path))


def removal_step(path: Path) -> Step:
    """Remove a file, a link or a folder with its content. A folder with a disk of its own is only emptied."""

    def paths() -> list[Path]:
        if path.is_mount():
            return list(path.iterdir())
        return [path] if os.path.lexists(path) else []

    def remove() -> None:
        for each in paths():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()

    return Step(f"remove {path}", remove, lambda: not paths())


def command_step(machine: Machine, words: str, *command: str) -> Step:
    """Run a program; always, since it can't be known whether it has run."""
    return Step(f"{words}: {' '.join(command)}", lambda: machine.run(list(command)), is_change=False)


def write(path: Path, content: str) -> None:
    """Write a file atomically, and its folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.encode())


def holds(path: Path, content: str) -> bool:
    """Whether a file has this content."""
    try:
        return path.read_text(encoding="utf-8") == content
    except (OSError, ValueError):
        return False


def digest_of(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def link_atomically(path: Path, target: Path | str) -> None:
    """Let the link `path` point to `target`; the change is on disk when this returns.

    Blocking. Raises OSError.
    """
    new = path.with_name(f"{path.name}.part")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(path)
    sync_folder(path.parent)
