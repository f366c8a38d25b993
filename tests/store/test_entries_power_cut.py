"""A power cut or a kill at any step while an entry is saved: the whole entry is there or nothing of it."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from growd.store.entries.entry import JournalEntry
from growd.store.entries.entry_folder import EntryFolder
from growd.store.points import PointMaker
from support.photos import copy_of, jpeg, png

PHOTOS = (jpeg(body=100_000), png())
ROOT = Path(__file__).parents[2]


class SyncedDisk:
    """What is certain to be on the disk: the files and folders as they were when they were synced."""

    def __init__(self, folder):
        self.root = folder.stat().st_ino
        self._files = {}
        self._folders = {self.root: {}}

    def sync(self, descriptor):
        status, place = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}").readlink()
        if stat.S_ISDIR(status.st_mode):
            self._folders[status.st_ino] = {path.name: path.stat().st_ino for path in place.iterdir()}
        else:
            self._files[status.st_ino] = place.read_bytes()

    def lay(self, target, number=None):
        """Write the state after a cut that loses everything else."""
        target.mkdir()
        for name, inode in self._folders.get(self.root if number is None else number, {}).items():
            if inode in self._files:
                (target / name).write_bytes(self._files[inode])
            elif inode in self._folders:
                self.lay(target / name, inode)
            else:
                (target / name).touch()


def save(data):
    """Save an entry; without the thread, so that each step can be stopped at."""
    staged = EntryFolder(data).begin()
    for photo in PHOTOS:
        staged.write(photo[:50])
        staged.write(photo[50:])
        staged.finish_photo()
    make = PointMaker("0123456789ab").make
    note = make("environment_1", "note", "tray 1", 1_700_000_000.0, category="event", is_manual=True)
    height = make("environment_1", "plant_height", 12.5, 1_700_000_000.0, is_manual=True)
    entry = JournalEntry(note, 1_700_000_000.0, (height,), tuple(staged.photos))
    staged.commit(entry)
    return entry


def found_in(data):
    """The entry in a data folder, which is whole."""
    folder = EntryFolder(data)
    entries = [*folder.load().values()]
    assert folder.unreadable == []
    assert len(entries) <= 1
    for entry in entries:
        assert len(entry.photos) == len(PHOTOS)
        for photo, received in zip(entry.photos, PHOTOS, strict=True):
            with folder.open_photo(entry, photo.name) as file:
                assert file.read() == copy_of(received)
        assert [point.value for point in entry.measurements] == [12.5]
    return entries[0] if entries else None


def test_a_power_cut_leaves_the_whole_entry_or_nothing(tmp_path, monkeypatch):
    data, states = tmp_path / "data", []
    data.mkdir()
    disk = SyncedDisk(data)
    fsync = os.fsync

    def look():
        """The least and the most that a cut leaves."""
        for name, lay in (("least", disk.lay), ("most", lambda target: shutil.copytree(data, target))):
            target = tmp_path / f"{name} {len(states)}"
            lay(target)
            states.append(found_in(target))

    def recorded(descriptor):
        look()
        fsync(descriptor)
        disk.sync(descriptor)
        look()

    monkeypatch.setattr(os, "fsync", recorded)
    entry = save(data)
    look()
    assert states[-2:] == [entry, entry]  # acknowledged
    assert None in states
    assert all(state in (None, entry) for state in states)


# Each child ends itself at the Nth call of the operating system that Python audits.
KILLED = """
import os, sys
from pathlib import Path
from store.test_entries_power_cut import save

def hook(event, arguments):
    global left
    if event in {'open', 'os.mkdir', 'os.rename', 'os.remove', 'os.truncate'}:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)

for step in range(1, 60):
    data, left = Path(sys.argv[1], str(step)), step
    data.mkdir()
    child = os.fork()
    if child == 0:
        sys.addaudithook(hook)
        save(data)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, flush=True)
    if status == 0:
        break
"""


@pytest.mark.kill
def test_a_kill_at_any_step_leaves_the_whole_entry_or_nothing(tmp_path):
    path = os.pathsep.join(str(ROOT / name) for name in ("tests", "daemon"))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={"PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    statuses = [int(line) for line in done.stdout.split()]
    is_there = [found_in(tmp_path / str(step)) is not None for step, _ in enumerate(statuses, 1)]
    assert statuses == [-9] * (len(statuses) - 1) + [0]
    assert len(statuses) > 10
    assert is_there[0] is False
    assert is_there[-1] is True
