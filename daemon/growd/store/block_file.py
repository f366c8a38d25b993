"""A file of fixed size, written in whole blocks, each on the disk when the write returns."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from typing import TYPE_CHECKING, Final, Self

from growd.runtime.files import sync_folder

if TYPE_CHECKING:
    from pathlib import Path

_SECTORS: Final = (512, 4096)
"""The smallest writes of disks and cards: 512 bytes nearly always, 4096 on some."""

_PIECE: Final = 64 * 1024


class Presence:
    """Whether the open file is still the one at `path`.

    The kernel lets a program write to a file that was deleted, or whose folder was moved. Every call blocks,
    for one stat(2).
    """

    def __init__(self, path: Path) -> None:
        self.is_gone = False
        """As the last `look` found."""
        self.path = path
        self._file = path.stat()

    def look(self) -> bool:
        """Check it."""
        try:
            self.is_gone = not os.path.samestat(self.path.stat(), self._file)
        except OSError:
            self.is_gone = True
        return not self.is_gone

    def check(self) -> None:
        """Raise FileNotFoundError if it is not."""
        if not self.look():
            raise FileNotFoundError("it was deleted or moved while growd runs")


class BlockFile:
    """The file at `path`, made of zeros if it did not exist, grown to `size` bytes if it was smaller.

    Writes bypass the page cache (O_DIRECT, open(2)) and are synced (O_DSYNC): a block of 512 bytes costs the
    card 512 bytes, while a page of the cache would cost 4096 or more. The space is allocated when the file is
    made, so a full disk prevents no write, and the file system has no metadata to write. On file systems
    without direct writes (tmpfs), they are synced only. Every call blocks, and raises OSError.
    """

    def __init__(self, path: Path, descriptor: int, size: int, block: int) -> None:
        self.size = size
        self.presence = Presence(path)
        self.block = block
        self._descriptor = descriptor
        self._buffer = mmap.mmap(-1, size)  # aligned to a page, as direct writes require

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

    def read(self) -> mmap.mmap:
        """The whole content."""
        # In a mapping of its own, whose memory goes back to the kernel with it. The buffer would keep all its
        # pages from now on, and malloc that of a bytes object.
        content = mmap.mmap(-1, self.size)
        if os.preadv(self._descriptor, [content], 0) != self.size:
            raise OSError(f"the file is shorter than its {self.size} bytes")
        return content

    def write(self, number: int, data: bytes) -> None:
        """Write `data` at a block; the rest of its last block becomes zeros."""
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
    """Make the file in its full size, if needed; its size."""
    descriptor = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        present = os.fstat(descriptor).st_size // _SECTORS[-1] * _SECTORS[-1]
        if present >= size:
            return present
        end = present
        while end < size:  # a nearly full disk writes less than it is given
            end += os.pwrite(descriptor, bytes(min(_PIECE, size - end)), end)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)
    return size


def open_own(path: Path, flags: int) -> int:
    """A descriptor of the regular file at `path`; links are refused. Raises OSError."""
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


def _takes(descriptor: int, block: int) -> bool:
    with mmap.mmap(-1, block) as buffer:
        try:
            return os.preadv(descriptor, [buffer], 0) == block
        except OSError:
            return False
