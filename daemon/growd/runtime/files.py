"""Files: written so that a power cut leaves the old or the new content, and read as text."""

from __future__ import annotations

import codecs
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path


def read_regular(path: Path, most_bytes: int) -> bytes | None:
    """The content of a regular file; None if it does not exist. Does not follow links or wait for pipes.

    Blocking. Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        return file.read(most_bytes)


def write_atomically(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write `content` to `path`; it is on disk when this returns. A link at `path` is replaced.

    With `mode` the file has this mode, else the usual one. Blocking. Raises OSError.
    """
    new = path.with_name(f"{path.name}.part")
    new.unlink(missing_ok=True)
    with new.open("xb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk; syncing a file does not ensure its name (fsync(2)).

    Blocking. Raises OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exists_already(path: Path) -> str:
    """The refusal of all commands that would write over a file."""
    return f"{path} exists already: --replace replaces it"


_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class EncodingError(ValueError):
    """A text is not UTF-8 from `line` on; the message says what it is, and what to do."""

    def __init__(self, content: bytes, start: int = 0) -> None:
        is_utf_16 = content.startswith(_UTF_16) or b"\0" in content
        self.line = 1 if is_utf_16 else content.count(b"\n", 0, start) + 1
        super().__init__(f"it is {'in UTF-16, not' if is_utf_16 else 'not'} in UTF-8; save it as UTF-8")


def decoded(content: bytes) -> str:
    """The text of these bytes. Raises `EncodingError`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EncodingError(content, error.start) from None
    if "\0" in text:  # UTF-16 without a mark
        raise EncodingError(content)
    return text


def read_text(path: Path) -> str:
    """The text of a file, with the line ends of Unix. Raises OSError and `EncodingError`."""
    return decoded(path.read_bytes()).replace("\r\n", "\n").replace("\r", "\n")
