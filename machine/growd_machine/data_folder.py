"""The part of a running daemon that reports a data folder in memory, and an upgrade that failed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from growd.runtime.files import read_regular, sync_folder, write_atomically

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.parts import Surroundings

_log = logging.getLogger(__name__)

UPGRADE_NOTE: Final = "failed-upgrade"
_MOST_BYTES: Final = 4096
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_LOST_ROOT: Final = re.compile(r"(^|\s)(overlayroot=\S*tmpfs|boot=overlay)")
"""Words of the kernel's command line that put the root below an overlay in memory (raspi-config)."""


@dataclass(frozen=True, slots=True)
class _Mount:
    point: Path
    kind: str
    options: str


@contextlib.asynccontextmanager
async def opened(around: Surroundings) -> AsyncIterator[None]:
    """Report it for the body; a simulated chamber may have its folder in memory."""
    problems = []
    if note := await asyncio.to_thread(take_note, around.data):
        problems.append({"text": note, "code": "upgrade_failed"})
    memory = await asyncio.to_thread(memory_below, around.data)
    if memory is not None and not around.present().simulator.enabled:
        text = (
            f"the data folder {around.data} is in memory ({memory}): its points are lost at a power cut and "
            'a reboot; put it on a disk (docs/raspberry-pi.md, "Read-only root")'
        )
        _log.warning("%s", text)
        problems.append({"text": text, "code": "data_in_memory"})
    around.bus.node("machine/data_folder").describe("problems", lambda: problems)
    yield


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
