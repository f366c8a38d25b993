"""A power cut or a kill at any step while an entry is saved: the whole entry is there or nothing of it."""

import os
import shutil
import stat
from pathlib import Path

from growd.store.entries.entry import JournalEntry
from growd.store.entries.entry_folder import EntryFolder
from growd.store.points import PointMaker
from support.photos import copy_of, jpeg, png

PHOTOS = (jpeg(body=100_000), png())


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


def test_a_power_cut_or_a_kill_leaves_the_whole_entry_or_nothing(tmp_path, monkeypatch):
    data, states = tmp_path / "data", []
    data.mkdir()
    disk = SyncedDisk(data)

    is_looking = False

    def look():
        """The least and the most that a cut leaves; a kill leaves the most."""
        nonlocal is_looking
        is_looking = True
        for name, lay in (("least", disk.lay), ("most", lambda target: shutil.copytree(data, target))):
            target = tmp_path / f"{name} {len(states)}"
            lay(target)
            states.append(found_in(target))
        is_looking = False

    def watch(name):
        usual = getattr(os, name)

        def watched(*arguments, **options):
            if is_looking:
                return usual(*arguments, **options)
            look()
            answer = usual(*arguments, **options)
            if name == "fsync":
                disk.sync(*arguments)
            look()
            return answer

        monkeypatch.setattr(os, name, watched)

    for name in ("fsync", "mkdir", "rename", "unlink"):
        watch(name)
    entry = save(data)
    look()
    assert states[-2:] == [entry, entry]  # acknowledged
    assert None in states
    assert all(state in (None, entry) for state in states)
