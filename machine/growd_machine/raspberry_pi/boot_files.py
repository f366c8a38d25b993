"""The boot files of a Raspberry Pi: what growd would change in them, the change, and the way back.

Before the first change a copy of each file is kept beside it, with `.growd-before` at the end of its name. It
is for a Pi that does not boot: any computer can read the card and put the copy back. All functions block.
"""

from __future__ import annotations

import difflib
import stat
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from growd.runtime.files import write_atomically
from growd_machine.raspberry_pi.cmdline import taken_back, with_words, words_in
from growd_machine.raspberry_pi.config_txt import (
    LineChange,
    includes_in,
    software_buses,
    undone,
    value_of,
    with_wanted,
)
from growd_machine.raspberry_pi.model import PiError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from growd_machine.raspberry_pi.plan import BootPlan

_FOLDERS: Final = ("boot/firmware", "boot", ".")
"""Since Raspberry Pi OS bookworm, before, and a boot partition that is mounted by itself."""

_BEFORE: Final = ".growd-before"
_ENCODING: Final = "latin-1"  # each byte is a character: nothing is lost


@dataclass(frozen=True, slots=True)
class BootFile:
    """A boot file: its text, the text that it should have, and the changes with their reasons."""

    path: Path
    before: str
    after: str
    changes: tuple[LineChange, ...] = ()
    is_one_line: bool = False
    """It has no room for comments, so a second copy shows what growd wrote."""

    @property
    def is_changed(self) -> bool:
        """Whether there is something to write."""
        return self.before != self.after

    def diff(self) -> Iterator[str]:
        """The lines of a unified diff."""
        old, new = (text.replace("\r", "").splitlines() for text in (self.before, self.after))
        yield from difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm="", n=1)

    def write(self) -> None:
        """Write the new text, and keep a copy of the old one unless there is one. Raises `PiError`."""
        copy = _copy_of(self.path)
        with _explained(self.path):
            if self.is_changed and not copy.exists():
                write_atomically(copy, self.before.encode(_ENCODING))
            if self.is_changed and self.is_one_line:
                write_atomically(_record_of(self.path), self.after.encode(_ENCODING))
            self._replace()

    def take_back(self) -> None:
        """Write the text without the changes of growd, and remove the copies. Raises `PiError`."""
        with _explained(self.path):
            self._replace()
            _copy_of(self.path).unlink(missing_ok=True)
            _record_of(self.path).unlink(missing_ok=True)

    def _replace(self) -> None:
        if self.is_changed:
            write_atomically(self.path, self.after.encode(_ENCODING))


def config_txt_at(root: Path) -> Path:
    """The path of config.txt below `root`. Raises `PiError` without one."""
    for folder in _FOLDERS:
        path = root / folder / "config.txt"
        try:
            if path.is_file():
                return _inside(path, root)
            if folder == _FOLDERS[0] and path.parent.is_dir():
                break  # not mounted; /boot/config.txt only says that the file is here
        except OSError as error:
            raise PiError(f"{path} can't be read: {error.strerror or error}") from None
    first, second, third = (root / folder for folder in _FOLDERS)
    raise PiError(f"there is no config.txt in {first}, {second} or {third}: is the boot partition mounted?")


def config_txt(root: Path) -> str:
    """The text of config.txt. Raises `PiError`."""
    return _config(root).before


def planned_files(root: Path, plan: BootPlan, filters: Collection[str]) -> list[BootFile]:
    """Both files as the plan wants them. Raises `PiError`."""
    config = _config(root)
    after, changes = with_wanted(config.before, plan.lines, filters)
    cmdline = _cmdline(config, filters)
    original = _original(cmdline)
    words = [word.line for word in plan.words]
    text = with_words(original, words, plan.consoles)
    return [
        replace(config, after=after, changes=changes),
        replace(cmdline, after=text, changes=tuple(_word_changes(original, text, plan))),
    ]


def undone_files(root: Path) -> list[BootFile]:
    """All files that growd changed, without its changes. Raises `PiError`."""
    config = _config(root)
    folder = config.path.parent
    changed = [copy.with_name(copy.name.removesuffix(_BEFORE)) for copy in folder.rglob(f"*{_BEFORE}")]
    files = [_read(path, folder) for path in sorted(changed) if path.is_file() and path != config.path]
    return [
        replace(config, after=undone(config.before)),
        *(replace(file, after=_original(file), is_one_line=True) for file in files),
    ]


def made_buses(root: Path, filters: Collection[str]) -> set[int]:
    """The I2C buses in software that config.txt makes. Raises `PiError`."""
    return software_buses(config_txt(root), filters)


def included_files(root: Path) -> list[str]:
    """The files that config.txt includes, and that growd does not read."""
    return includes_in(config_txt(root))


def _config(root: Path) -> BootFile:
    return _read(config_txt_at(root), root)


def _cmdline(config: BootFile, filters: Collection[str]) -> BootFile:
    """The file with the kernel's command line, which config.txt may name."""
    prefix = value_of(config.before, "os_prefix", filters) or ""
    name = value_of(config.before, "cmdline", filters) or "cmdline.txt"
    folder = config.path.parent
    path = folder / f"{prefix}{name}"
    path = path if prefix and path.is_file() else folder / name
    return replace(_read(path, folder), is_one_line=True)


def _original(cmdline: BootFile) -> str:
    """Its text without the changes of growd, which the two copies show."""
    copies = _copy_of(cmdline.path), _record_of(cmdline.path)
    if not all(copy.exists() for copy in copies):
        return cmdline.before
    before, after = (_read(copy, cmdline.path.parent).before for copy in copies)
    return taken_back(cmdline.before, before, after)


def _word_changes(before: str, after: str, plan: BootPlan) -> Iterator[LineChange]:
    old, new = words_in(before), words_in(after)
    for word in old:
        if word not in new:
            yield LineChange("", "no console on the serial port of a sensor", word)
    for item in plan.words:
        if item.line not in old:
            yield LineChange(item.line, item.reason)


def _read(path: Path, folder: Path) -> BootFile:
    """A file in `folder`. Raises `PiError`, also for a pipe or a device, which could block."""
    try:
        if not stat.S_ISREG(_inside(path, folder).stat().st_mode):
            raise PiError(f"{path} is not a file")
        text = path.read_bytes().decode(_ENCODING)
    except OSError as error:
        raise PiError(f"{path} can't be read: {error.strerror or error}") from None
    return BootFile(path, text, text)


def _inside(path: Path, folder: Path) -> Path:
    """The path. Raises `PiError` if it leads out of `folder`, as a link on a strange card may."""
    place = path.resolve()
    if not place.is_relative_to(folder.resolve()):
        raise PiError(f"{path} leads out of {folder}, to {place}: nothing is written there")
    return path


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PiError(
            f"{path} can't be written: {error.strerror or error}; if the boot partition is read-only, "
            f"make it writable: sudo mount -o remount,rw {path.parent}"
        ) from None


def _copy_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{_BEFORE}")


def _record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.growd-after")
