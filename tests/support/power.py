"""Power cuts: a record of all writes to the disk, and the states in which a cut may leave the files.

A VFS in front of SQLite's own records what SQLite writes (sqlite.org/vfs.html). `RecordedBlocks` records the
log of points.
"""

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path

from growd.runtime.files import sync_folder
from growd.store.block_file import BlockFile

SECTOR = 512


class Record:
    """Writes, syncs and promises, in order."""

    def __init__(self):
        self.entries = []

    def note(self, kind, value):
        self.entries.append(("note", kind, value))

    def file(self, name, content):
        self.entries.append(("file", name, content))

    def write(self, name, offset, data):
        self.entries.append(("write", name, offset, data))

    def truncate(self, name, size):
        self.entries.append(("truncate", name, size))

    def sync(self, name):
        self.entries.append(("sync", name))

    def delete(self, name):
        self.entries.append(("delete", name))

    def sync_folder(self, folder):
        sync_folder(folder)
        self.entries.append(("sync folder", folder.name))


class RecordedBlocks:
    """A `BlockFile` that records each write before it happens, and a sync after it."""

    def __init__(self, path, size, record):
        self._file = BlockFile.open(path, size)
        self._name = path.name
        self._record = record
        self.size = self._file.size
        self.block = self._file.block
        record.file(path.name, self._file.read()[:])

    def read(self):
        return self._file.read()[:]

    def write(self, number, data):
        self._record.write(self._name, number * self.block, data + bytes(-len(data) % self.block))
        self._file.write(number, data)
        self._record.sync(self._name)

    def close(self):
        self._file.close()


_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
_CLOSE = CFUNCTYPE(c_int, c_void_p)


class _Vfs(ctypes.Structure):  # sqlite3_vfs, version 3 (sqlite.org/c3ref/vfs.html)
    _fields_ = (
        ("version", c_int),
        ("file_bytes", c_int),
        ("path_bytes", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _OPEN),
        ("delete", _DELETE),
        ("rest", c_void_p * 14),
    )


class _Methods(ctypes.Structure):  # sqlite3_io_methods, version 3 (sqlite.org/c3ref/io_methods.html)
    _fields_ = (
        ("version", c_int),
        ("close", _CLOSE),
        ("read", c_void_p),
        ("write", _WRITE),
        ("truncate", _TRUNCATE),
        ("sync", _SYNC),
        ("rest", c_void_p * 13),
    )


class RecordingVfs:
    """SQLite's usual VFS, which records writes. One exists for the life of the process."""

    def __init__(self, record):
        library = sqlite_library()
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self._record = record
        self._usual = library.sqlite3_vfs_find(None).contents
        self._names = {}
        self._methods = {}
        self._vfs = _Vfs.from_buffer_copy(self._usual)
        self._vfs.name = b"recording"
        self._vfs.open = _OPEN(self._open)
        self._vfs.delete = _DELETE(self._delete)
        library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)

    def _open(self, vfs, name, file, flags, out):
        # the unchanged pointer: SQLite stores parameters behind the name
        status = self._usual.open(vfs, name, file, flags, out)
        if status == 0 and name:
            self._names[file] = _name_at(name)
            place = c_void_p.from_address(file)  # the first member of each sqlite3_file
            if place.value not in self._methods:
                self._methods[place.value] = self._recorded(_Methods.from_address(place.value))
            place.value = ctypes.addressof(self._methods[place.value][1])
        return status

    def _delete(self, vfs, name, sync_folder):
        self._record.delete(_name_at(name))
        status = self._usual.delete(vfs, name, sync_folder)
        if sync_folder:
            self._record.sync(_name_at(name))
        return status

    def _recorded(self, usual):
        def close(file):
            self._names.pop(file, None)
            return int(usual.close(file))

        def write(file, data, length, offset):
            self._record.write(self._names[file], offset, ctypes.string_at(data, length))
            return int(usual.write(file, data, length, offset))

        def truncate(file, size):
            self._record.truncate(self._names[file], size)
            return int(usual.truncate(file, size))

        def sync(file, flags):
            status = int(usual.sync(file, flags))
            self._record.sync(self._names[file])
            return status

        methods = _Methods.from_buffer_copy(usual)
        methods.close, methods.write = _CLOSE(close), _WRITE(write)
        methods.truncate, methods.sync = _TRUNCATE(truncate), _SYNC(sync)
        return usual, methods


def sqlite_library():
    """The library that `_sqlite3` has loaded; OSError if SQLite is linked statically."""
    import _sqlite3  # noqa: PLC0415, F401  it is loaded with it

    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if "libsqlite3" in line}
    if len(paths) != 1:
        raise OSError("SQLite is linked into Python, and its functions can't be reached")
    return ctypes.CDLL(paths.pop())


def _name_at(pointer):
    return os.path.basename(os.fsdecode(ctypes.string_at(pointer)))  # noqa: PTH119  a path of SQLite's


class Disk:
    """The synced state of the files, and the later writes that a cut may lose."""

    def __init__(self):
        self._sure = {}
        self._since = {}

    def take(self, entry):
        kind, name = entry[:2]
        if kind == "sync folder":
            self._delete_for_good()
        elif kind == "file":
            self._sure[name], self._since[name] = entry[2], []
        elif kind == "sync":
            since = self._since.pop(name, [])
            self._sure[name] = _after(self._sure.get(name), since)
        else:
            self._since.setdefault(name, []).append(entry)

    def _delete_for_good(self):
        for name, since in self._since.items():
            end = max((number for number, entry in enumerate(since, 1) if entry[0] == "delete"), default=0)
            if end:
                self._sure[name] = None
                del since[:end]

    def after_cut(self, kind, chance):
        """The files after a cut: with `none`, `all`, `some first` or `any` of the unsynced writes.

        The last write of each file that came through is torn, but for `all`.
        """
        left = {}
        for name in self._sure.keys() | self._since.keys():
            since = _chosen(self._since.get(name, []), kind, chance)
            content = _after(self._sure.get(name), since)
            if content is not None:
                left[name] = content
        return left


def _chosen(entries, kind, chance):
    if kind == "none" or not entries:
        return []
    if kind == "all":
        return entries
    if kind == "some first":
        chosen = entries[: chance.randint(1, len(entries))]
    else:  # only data may be written in any order
        chosen = [entry for entry in entries if entry[0] != "write" or chance.random() < 0.5]
    return [*chosen[:-1], *_torn(chosen[-1], chance)] if chosen else []


def _torn(entry, chance):
    """A prefix that ends at a sector boundary."""
    if entry[0] != "write":
        yield entry
        return
    kind, name, offset, data = entry
    end = (offset + chance.randint(0, len(data))) // SECTOR * SECTOR
    if end > offset:
        yield kind, name, offset, data[: end - offset]


def _after(content, entries):
    changed = None if content is None else bytearray(content)
    for kind, _, *arguments in entries:
        if kind == "delete":
            changed = None
            continue
        changed = bytearray() if changed is None else changed
        if kind == "truncate":
            del changed[arguments[0] :]
            changed.extend(bytes(arguments[0] - len(changed)))
        else:
            offset, data = arguments
            changed.extend(bytes(max(0, offset - len(changed))))
            changed[offset : offset + len(data)] = data
    return None if changed is None else bytes(changed)
