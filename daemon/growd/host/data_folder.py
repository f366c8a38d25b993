"""The data folder: its lock, since only one growd at a time may use it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

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
