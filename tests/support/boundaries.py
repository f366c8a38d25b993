"""Every boundary of a program between two changes of the disk, and what a power cut there leaves.

`Boundaries` counts the changes of this process below a folder: files opened for writing, renames, removals,
links, folders, syncs, and programs started. At the chosen one it ends the process with SIGKILL, as it is
without or as a power cut leaves it: changes of a folder that was not synced since are undone, and a file that
was not synced is empty.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class _Change(NamedTuple):
    folder: Path
    undo: Callable[[], None]


class Boundaries:
    """Counts from its creation on, and ends the process at the boundary `last` (0: never)."""

    def __init__(self, root, last=0, cut=""):
        self.count = 0
        self._root = str(root)
        self._last = last
        self._cut = cut  # "", "none" or "some": the changes that survive the power cut
        self._pending = []
        self._unsynced = set()
        self._stash = Path(f"{root}.stash")
        self._stash.mkdir(exist_ok=True)
        self._is_busy = False
        self._fsync, os.fsync = os.fsync, self._sync
        sys.addaudithook(self._hear)

    def end(self):
        """Count no more; for a program that goes on after what it did."""
        self._is_busy = True

    def _hear(self, event, arguments):
        if self._is_busy:
            return
        self._is_busy = True
        try:
            self._take(event, arguments)
        finally:
            self._is_busy = False

    def _take(self, event, arguments):
        if event == "subprocess.Popen":
            self._pass()
        elif event == "open" and isinstance(arguments[0], str | bytes) and arguments[2] & _WRITES:
            self._at(self._opened, self._path(arguments[0]))
        elif event in {"os.rename", "os.link"}:
            source, target = (self._path(arguments[i], arguments[i + 2]) for i in (0, 1))
            self._at(self._linked if event == "os.link" else self._renamed, source, target)
        elif event in {"os.remove", "os.rmdir"}:
            self._at(self._removed, self._path(arguments[0], arguments[1]))
        elif event == "os.mkdir":
            self._at(self._made, self._path(arguments[0], arguments[2]))
        elif event == "os.symlink":
            self._at(self._made, self._path(arguments[1], arguments[2]))

    def _at(self, note, *paths):
        """A boundary, if all paths are below the folder."""
        if None not in paths:
            self._pass()
            note(*paths)

    def _path(self, name, folder=-1):
        """The path of an argument, None if it is elsewhere."""
        text = os.fsdecode(name)
        if not text.startswith("/"):
            base = Path.cwd() if folder == -1 else Path(f"/proc/self/fd/{folder}").readlink()
            text = str(base / text)
        return Path(text) if text.startswith(f"{self._root}/") else None

    def _pass(self):
        self.count += 1
        if self.count == self._last:
            self._lose()
            os.kill(os.getpid(), signal.SIGKILL)

    def _opened(self, path):
        self._unsynced.add(path)
        if not path.exists():
            self._pending.append(_Change(path.parent, path.unlink))

    def _made(self, path):
        if not os.path.lexists(path):  # else it fails
            self._pending.append(_Change(path.parent, lambda: _remove(path)))

    def _renamed(self, source, target):
        before = self._kept(target)

        def undo():
            target.rename(source)
            before(target)

        self._pending.append(_Change(target.parent, undo))
        if source in self._unsynced:
            self._unsynced = self._unsynced - {source} | {target}

    def _linked(self, _, target):
        self._pending.append(_Change(target.parent, target.unlink))

    def _removed(self, path):
        before = self._kept(path)
        self._pending.append(_Change(path.parent, lambda: before(path)))

    def _kept(self, path):
        """Keep what is at a path; the way to put it back."""
        if path.is_symlink():
            text = path.readlink()
            return lambda place: place.symlink_to(text)
        if path.is_dir():
            return Path.mkdir
        if not path.exists():
            return lambda _: None
        copy = self._stash / f"{len(self._pending)}-{self.count}"
        os.link(path, copy)
        return lambda place: os.link(copy, place)

    def _sync(self, descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if str(path).startswith(self._root) and not self._is_busy:
            self._pass()
            self._unsynced.discard(path)
            self._pending = [change for change in self._pending if change.folder != path]

    def _lose(self):
        """What a power cut loses."""
        if not self._cut:
            return
        chance = random.Random(self.count)
        surviving = 0 if self._cut == "none" else chance.randint(0, len(self._pending))
        for path in self._unsynced:
            if path.exists() and not path.is_symlink():
                os.truncate(path, 0)
        for change in reversed(self._pending[surviving:]):
            with suppress(OSError):
                change.undo()


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
