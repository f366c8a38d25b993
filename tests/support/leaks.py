"""What this process holds, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path


def open_sockets() -> set[str]:
    """The sockets that this process holds, by inode."""
    links = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue  # the folder's own descriptor
        if target.startswith("socket:"):
            links.add(target)
    return links


def child_processes() -> set[int]:
    """Children of this process that still run (or were not waited for)."""
    me = str(os.getpid())
    return {
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _parent(entry) == me
    }


def _parent(entry: Path) -> str | None:
    try:
        # the second field is a name in parentheses that may hold spaces
        return (entry / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return None  # it ended meanwhile
