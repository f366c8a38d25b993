"""A file of fixed size that is written in whole blocks, each on the disk when the write returns."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path

_SECTORS: Final = (512, 4096)
"""What disks and cards take as their smallest write: 512 bytes nearly always, 4096 on some."""

_PIECE: Final = 64 * 1024


class Presence:
    """Whether the file that is open is still the one at `path`.

    The kernel lets a program write to a file that was deleted, or whose folder was moved away. All calls
    block, for one stat(2).
    """

    def __init__(self, path: Path) -> None:
        self.is_gone = False
        """As `look` found it last."""
        self.path = path
        self._file = path.stat()

    def look(self) -> bool:
        """Whether it is."""
        try:
            self.is_gone = not os.path.samestat(self.path.stat(), self._file)
        except OSError:
            self.is_gone = True
        return not self.is_gone

    def check(self) -> None:
        """Raise FileNotFoundError where it is not."""
        if not self.look():
            raise FileNotFoundError("it was deleted or moved while growd runs")


class BlockFile:
    """The file at `path`, made of zeros if it was not there, grown to `size` bytes if it was smaller.

    Writes go past the page cache (O_DIRECT, open(2)) and are synced (O_DSYNC): a block of 512 bytes costs the
    card 512 bytes, where a page of the cache would cost 4096 or more. The place for them is taken when the
    file is made, so a full disk stops no write, and the file system has nothing of its own to write down.
    Where a file system knows no direct writes (tmpfs), they are synced only. Every call blocks; OSError when
    the disk can't.
    """

    def __init__(self, path: Path, descriptor: int, size: int, block: int) -> None:
        self.size = size
        self.presence = Presence(path)
        self.block = block
        self._descriptor = descriptor
        self._buffer = mmap.mmap(-1, size)  # memory at the start of a page, as direct writes want it

    @classmethod
    def open(cls, path: Path, size: int) -> Self:
        size = _make(path, size)
        try:
            descriptor = open_own(path, os.O_RDWR | os.O_DSYNC | os.O_DIRECT)
        except OSError:
            return cls(path, open_own(path, os.O_RDWR | os.O_DSYNC), size, _SECTORS[0])
        for block in _SECTORS:
            if _takes(descriptor, block):
                return cls(path, descriptor, size, block)
        os.close(descriptor)
        return cls(path, open_own(path, os.O_RDWR | os.O_DSYNC), size, _SECTORS[0])

    def read(self) -> bytes:
        """All of it."""
        if os.preadv(self._descriptor, [self._buffer], 0) != self.size:
            raise OSError(f"the file is shorter than its {self.size} bytes")
        return bytes(self._buffer)

    def write(self, number: int, data: bytes) -> None:
        """Write `data` at the block of that number; the rest of its last block becomes zeros."""
        self.presence.check()
        length = -(-len(data) // self.block) * self.block
        self._buffer[:length] = data.ljust(length, b"\0")
        with memoryview(self._buffer) as view, view[:length] as piece:
            written = os.pwrite(self._descriptor, piece, number * self.block)
        if written != length:
            raise OSError(f"only {written} of {length} bytes were written")

    def close(self) -> None:
        os.close(self._descriptor)
        self._buffer.close()


def _make(path: Path, size: int) -> int:
    """See that the file is there with its full size, and say how large it is."""
    descriptor = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        present = os.fstat(descriptor).st_size // _SECTORS[-1] * _SECTORS[-1]
        if present >= size:
            return present
        end = present
        while end < size:  # a disk that is nearly full takes less than it is given, before it takes none
            end += os.pwrite(descriptor, bytes(min(_PIECE, size - end)), end)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)
    return size


def open_own(path: Path, flags: int) -> int:
    """A descriptor of a regular file at `path`; never of what a link there leads to. Raises OSError."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def sync_folder(folder: Path) -> None:
    """Put a new name on the disk, which syncing the file alone need not do (fsync(2))."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _takes(descriptor: int, block: int) -> bool:
    with mmap.mmap(-1, block) as buffer:
        try:
            return os.preadv(descriptor, [buffer], 0) == block
        except OSError:
            return False
