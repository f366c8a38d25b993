"""Text files that people write: UTF-8, with or without a byte order mark."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

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
