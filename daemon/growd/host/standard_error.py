"""Standard error when it is systemd's journal."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO, TextIO

_ERR: Final = "<3>"  # the priority of a line, sd-daemon(3)


def is_journal(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether systemd has connected the stream to the journal (JOURNAL_STREAM, systemd.exec(5)).

    The variable alone is not enough: a process whose stream was redirected inherits it.
    """
    device, _, inode = environment.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(stream.fileno())
        return (status.st_dev, status.st_ino) == (int(device), int(inode))
    except (OSError, ValueError):
        return False


def mark_errors() -> None:
    """Give each line on standard error the priority err, if it goes to the journal; else it has info."""
    if sys.stderr is not None and is_journal(sys.stderr):
        sys.stderr = MarkedErrors(sys.stderr.buffer)


class MarkedErrors(io.TextIOWrapper):
    """Puts the priority before each line; `sys.__stderr__` is the stream without it."""

    def __init__(self, buffer: BinaryIO) -> None:
        super().__init__(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self._is_in_line = False

    def write(self, text: str) -> int:
        """Write a text of any number of lines, or a part of one. Raises TypeError on bytes."""
        if not text:
            return super().write(text)  # click writes b"" to learn whether a stream takes bytes
        for line in text.splitlines(keepends=True):
            super().write(line if self._is_in_line else _ERR + line)
            self._is_in_line = not line.endswith("\n")
        return len(text)
