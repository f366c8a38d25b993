"""A note in the data folder that an upgrade failed, for the next start of the version that came back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.runtime.atomic_file import read_regular, sync_folder, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME: Final = "failed-upgrade"
_MOST_BYTES: Final = 4096


def leave_note(data: Path, sentence: str) -> None:
    """Blocking. Raises OSError."""
    write_atomically(data / FILE_NAME, sentence.encode()[:_MOST_BYTES])


def take_note(data: Path) -> str:
    """The note, which is removed; "" if there is none. Blocking. Raises OSError."""
    content = read_regular(data / FILE_NAME, _MOST_BYTES)
    if content is None:
        return ""
    (data / FILE_NAME).unlink()
    sync_folder(data)
    return content.decode(errors="replace")
