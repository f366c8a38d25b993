"""Files that are written whole or not at all, also in a power cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path`, on the disk when this returns. A link at `path` is replaced, not followed.

    Blocking. Raises OSError.
    """
    new = path.with_name(f"{path.name}.part")
    new.unlink(missing_ok=True)
    with new.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # the new name, which syncing the file alone need not do (fsync(2))
    finally:
        os.close(folder)
