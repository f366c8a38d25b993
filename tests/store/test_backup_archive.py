"""The file of a backup: written in parts, resumed, and refused with what is damaged."""

import hashlib
import io
import os
import subprocess

import pytest

from growd.store.errors import PartFileError
from growd_analysis.points.part_file import PartFile
from growd_machine.backup.archive import (
    FORMAT,
    ArchiveWriter,
    BackupError,
    DamagedBackupError,
    Manifest,
    packed,
    reading,
)
from support.full_disk import full_disk
from support.rows import each

QUERY = {"from": "here"}
CHUNK = "databases/recipes/000001.jsonl.gz"
LINES = [b'{"_id":"a"}', b'{"_id":"b\\u2028"}']
PHOTO = os.urandom(3_000_000)
PHOTO_NAME = f"attachments/{hashlib.sha256(PHOTO).hexdigest()}"


def place(number):
    return ("", "", str(number))


def write_first(writer):
    writer.add(CHUNK, packed(LINES), place(2), len(LINES))


def write_second(writer):
    writer.add_file(PHOTO_NAME, io.BytesIO(PHOTO), len(PHOTO))
    writer.add("state/001/empty", b"", place(3))


def finish(writer):
    writer.finish(Manifest(FORMAT, "0.1.0", 1.5, 2.5, "device", members=writer.members), place(4))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "chamber.growd"
    with PartFile(path, QUERY, is_private=True) as file:
        writer = ArchiveWriter(file)
        write_first(writer)
        write_second(writer)
        finish(writer)
    return path


def test_a_backup_is_read_back(path):
    with reading(path) as archive:
        manifest = archive.checked()
        assert archive.names() == [CHUNK, PHOTO_NAME, "state/001/empty", "manifest.json"]
        assert [*archive.lines(CHUNK)] == LINES
        assert (archive.size(PHOTO_NAME), archive.read(PHOTO_NAME)) == (len(PHOTO), PHOTO)
    assert manifest.documents("databases/recipes") == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_tar_lists_and_unpacks_it(path, tmp_path):
    done = subprocess.run(["tar", "xvf", path], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "manifest.json"
    assert done.stderr == ""
    assert (tmp_path / PHOTO_NAME).read_bytes() == PHOTO


def test_a_part_is_continued_behind_its_last_mark(path, tmp_path):
    other = tmp_path / "other.growd"
    with PartFile(other, QUERY, is_private=True) as file:
        write_first(ArchiveWriter(file))
        file.save()
        file.append(b"torn" * 1000)  # as a kill leaves it
    assert (tmp_path / "other.growd.part").stat().st_mode & 0o777 == 0o600
    with PartFile(other, QUERY, is_private=True) as file:
        assert file.mark.place == place(2)
        writer = ArchiveWriter(file)
        write_second(writer)
        finish(writer)
    assert other.read_bytes() == path.read_bytes()


def test_a_damaged_part_is_not_continued(tmp_path):
    other = tmp_path / "other.growd"
    with PartFile(other, QUERY) as file:
        write_first(ArchiveWriter(file))
        file.save()
    part = tmp_path / "other.growd.part"
    content = bytearray(part.read_bytes())
    content[-500] ^= 1  # in the packed lines
    part.write_bytes(content)
    with PartFile(other, QUERY) as file, pytest.raises(DamagedBackupError, match="000001"):
        ArchiveWriter(file)


@pytest.mark.long
def test_any_changed_byte_is_found(path):
    whole = path.read_bytes()
    used = len(whole) - 1024 - 512  # behind it only padding and the end
    for at in (*range(0, 40 * 41, 41), *range(used * 2 // 3, used, used // 60)):
        content = bytearray(whole)
        content[at] ^= 0x10
        path.write_bytes(content)
        with reading(path) as archive:
            try:
                manifest = archive.checked()
            except BackupError:
                continue
            # only in the padding, or in what tar says of owner and time
            assert len(manifest.members) == 3, at
            assert archive.read(PHOTO_NAME) == PHOTO
            assert [*archive.lines(CHUNK)] == LINES


@each(
    ("keep", "words"),
    [(0, "not a backup"), (600, "not a backup|damaged"), (3000, "attachments"), (-1500, "manifest.json")],
)
def test_a_cut_file_is_refused(path, tmp_path, keep, words):
    cut = tmp_path / "cut"
    cut.write_bytes(path.read_bytes()[:keep])
    with reading(cut) as archive, pytest.raises(DamagedBackupError, match=words):
        archive.checked()


def test_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "newer"
    with PartFile(path, QUERY) as file:
        ArchiveWriter(file).finish(Manifest(FORMAT + 1, "9.0", 1.5, 2.5, "device", members=[]), place(1))
    with (
        reading(path) as archive,
        pytest.raises(BackupError, match=r"growd 9\.0 in format 2.*install a newer one"),
    ):
        archive.checked()


def test_a_full_disk_leaves_a_part_that_goes_on(path, tmp_path, said):
    other = tmp_path / "other.growd"
    with full_disk(1_000_000), PartFile(other, QUERY) as file:
        writer = ArchiveWriter(file)
        write_first(writer)
        file.save()
        with said.raises(PartFileError):
            write_second(writer)
    with PartFile(other, QUERY) as file:
        writer = ArchiveWriter(file)
        write_second(writer)
        finish(writer)
    assert other.read_bytes() == path.read_bytes()
