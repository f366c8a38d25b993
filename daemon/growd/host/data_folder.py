"""The data folder: its lock, since only one growd at a time may use it, its notes, and where it is."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd.runtime.files import read_regular, sync_folder, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

LOCK_NAME: Final = "growd.lock"
RESTORING: Final = "restoring"
"""The folder in it while a backup is restored."""

_PID_WIDTH: Final = 20


class StartError(Exception):
    """The daemon can't start; the message is a sentence with the reason and the remedy."""


def own_folder(folder: Path, *, to_restore: bool = False) -> AbstractContextManager[object]:
    """Create the data folder, and lock it for this process while the context lasts.

    A folder that is not restored completely is only for the rest of the restore. Blocking. Raises
    `StartError`.
    """
    if not to_restore and (folder / RESTORING).exists():
        raise StartError(
            f"the data folder {folder} is not completely restored from a backup: "
            "run the same `growd restore` again, or choose another folder with --data"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(_open_lock(folder, os.O_RDWR | os.O_CREAT), "r+b", buffering=0)
    except OSError as error:
        raise unusable(folder, error) from None
    try:
        _claim(folder, file.fileno())
    except BaseException:
        file.close()
        raise
    return file


def _claim(folder: Path, descriptor: int) -> None:
    if not _lock(descriptor, fcntl.LOCK_EX):
        owner = _owner(descriptor)
        process = f" (process {owner})" if owner else ""
        raise StartError(
            f"the data folder {folder} is in use by another growd{process}; "
            "stop it, or choose another folder with --data"
        )
    try:
        os.pwrite(descriptor, f"{os.getpid():<{_PID_WIDTH}}\n".encode(), 0)
    except OSError as error:  # a full disk
        raise unusable(folder, error) from None


def unusable(folder: Path, error: OSError) -> StartError:
    """The error to raise when the data folder can't be written to."""
    if isinstance(error, FileExistsError):
        return StartError(f"the data folder {folder} is not a folder; choose another one with --data")
    return StartError(f"the data folder {folder} can't be written to: {error.strerror or error}")


@contextmanager
def as_owner(folder: Path) -> Iterator[None]:
    """Let this process be the owner of `folder` for the body.

    growd owns its data folder, and could have put a link to another file into it.
    """
    owner = folder.stat()
    if os.geteuid() or not owner.st_uid:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def running_in(folder: Path) -> str | None:
    """The process id of the growd that uses the data folder; None without one. Blocking."""
    try:
        descriptor = _open_lock(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        return None if _lock(descriptor, fcntl.LOCK_SH) else _owner(descriptor)
    finally:
        os.close(descriptor)


def _open_lock(folder: Path, flags: int) -> int:
    """Open the lock file; a link is refused, since its target would be overwritten. Raises OSError."""
    place = folder / LOCK_NAME
    try:
        descriptor = os.open(place, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{LOCK_NAME} is a link") from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.ELOOP, f"{LOCK_NAME} is a link or not a file")
    return descriptor


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _owner(descriptor: int) -> str:
    return os.pread(descriptor, _PID_WIDTH, 0).decode(errors="replace").strip()


UPGRADE_NOTE: Final = "failed-upgrade"
_MOST_BYTES: Final = 4096


def leave_note(data: Path, sentence: str) -> None:
    """Blocking. Raises OSError."""
    write_atomically(data / UPGRADE_NOTE, sentence.encode()[:_MOST_BYTES])


def take_note(data: Path) -> str:
    """The note, which is removed; "" if there is none. Blocking. Raises OSError."""
    content = read_regular(data / UPGRADE_NOTE, _MOST_BYTES)
    if content is None:
        return ""
    (data / UPGRADE_NOTE).unlink()
    sync_folder(data)
    return content.decode(errors="replace")


_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_LOST_ROOT: Final = re.compile(r"(^|\s)(overlayroot=\S*tmpfs|boot=overlay)")
"""Words of the kernel's command line that put the root below an overlay in memory (raspi-config)."""


@dataclass(frozen=True, slots=True)
class _Mount:
    point: Path
    kind: str
    options: str


def memory_below(folder: Path, root: Path = Path("/")) -> str | None:
    """The file system in memory that holds `folder`, such as "tmpfs"; None on a disk. Blocking.

    `root` is where /proc is. An overlay counts by the file system of its upper layer.
    """
    try:
        mounts = _mounts(root / "proc/self/mountinfo")
    except OSError:
        return None
    mount = _holding(mounts, Path(os.path.realpath(folder)) if root == Path("/") else folder)
    if mount is None or mount.kind != "overlay":
        return mount.kind if mount is not None and mount.kind in _IN_MEMORY else None
    return _upper(mount, mounts, root)


def _upper(overlay: _Mount, mounts: list[_Mount], root: Path) -> str | None:
    found = re.search(r"(?:^|,)upperdir=([^,]+)", overlay.options)
    if found is None:
        return None  # read-only
    upper = _holding(mounts, Path(found[1]))
    if upper is not None and upper is not overlay:
        return f"an overlay with its changes in {upper.kind}" if upper.kind in _IN_MEMORY else None
    try:  # its upper layer is not visible from here, as in a container
        words = (root / "proc/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return "an overlay with its changes in memory" if _LOST_ROOT.search(words) else None


def _holding(mounts: list[_Mount], folder: Path) -> _Mount | None:
    """The mount of a folder: the deepest, and of several at one place the last."""
    around = [mount for mount in mounts if folder.is_relative_to(mount.point)]
    return max(reversed(around), key=lambda mount: len(mount.point.parts), default=None)


def _mounts(file: Path) -> list[_Mount]:
    """Raises OSError."""
    mounts = []
    for line in file.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        fields, more = before.split(" "), after.split(" ")
        if len(fields) > 4 and len(more) > 2:  # noqa: PLR2004  mount point; type, source, options
            mounts.append(_Mount(Path(_unescaped(fields[4])), more[0], _unescaped(more[2])))
    return mounts


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
