"""Backups that somebody made by hand: refused in a sentence, and no way to write any file of the machine."""

import gzip
import hashlib
import io
import json
import stat
import tarfile

import pytest

from growd_machine.backup.archive import BackupError, DamagedBackupError, reading
from growd_machine.backup.files import RestoredFiles
from support.chambers import growd, places

RECIPES = "databases/recipes/000001.jsonl.gz"
WITHOUT = ("configuration/files.json", b'{"configuration":null,"removed":[],"files":[]}')
FOLDER = ("state/001.complete", b"")


def forge(path, *members, links=(), **values):
    """An archive with a right manifest; `links` are names that become symbolic links."""
    known = [
        {
            "name": name,
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "documents": gzip.decompress(content).count(b"\n") if name.endswith(".gz") else 0,
        }
        for name, content in members
    ]
    manifest = {"format": 1, "growd": "0.1.0", "began": 1.5, "finished": 2.5, "device": "d", "members": known}
    with tarfile.open(path, "w") as tar:
        for name, content in (*members, ("manifest.json", json.dumps(manifest | values).encode())):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if name in links:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc"
            tar.addfile(info, io.BytesIO(content))
    return path


def recorded(*files, configuration=None):
    record = {"configuration": configuration, "removed": [], "files": files}
    return ("configuration/files.json", json.dumps(record).encode())


def file_at(path, **values):
    return {"option": "http.certificate", "path": str(path), "member": "configuration/001-x", **values}


def restored(path, config, home):
    with reading(path) as archive:
        files = RestoredFiles(archive, config, None, home=home)
        files.write(replace=True, others=False)
    return files


@pytest.fixture
def home(tmp_path):
    return tmp_path / "etc/growd"


def test_files_outside_the_folder_are_left_out(tmp_path, home):
    own = {"option": "the configuration", "path": str(home / "growd.toml"), "member": "configuration/g"}
    record = recorded(
        file_at(tmp_path / "cron.d/x"), file_at(home / "tls/a.pem", mode=0o6777), configuration=own
    )
    path = forge(tmp_path / "f", ("configuration/g", b"# a"), ("configuration/001-x", b"PEM"), record)
    files = restored(path, None, home)
    assert files.written == [home / "growd.toml", home / "tls/a.pem"]
    assert stat.S_IMODE((home / "tls/a.pem").stat().st_mode) == 0o664
    assert files.others == [("http.certificate", tmp_path / "cron.d/x")]
    assert not (tmp_path / "cron.d").exists()
    elsewhere = restored(path, tmp_path / "safe/growd.toml", home)
    assert elsewhere.written == [tmp_path / "safe/growd.toml"]
    assert elsewhere.others[1] == ("http.certificate", tmp_path / "safe/tls/a.pem")


@pytest.mark.parametrize("odd", ["/etc/growd/../x", "x", "", "/a\0b", "/a\x1b[2J"])
def test_an_odd_path_is_refused(tmp_path, home, odd):
    path = forge(tmp_path / "f", ("configuration/001-x", b"x"), recorded(file_at(odd)))
    with pytest.raises(BackupError, match="configuration file with the path"):
        restored(path, None, home)


@pytest.mark.parametrize("content", [b"\xff", b'{"configuration":"\xff"}', b'{"x":' + b"[" * 100_000])
def test_an_unreadable_record_is_refused(tmp_path, home, content):
    path = forge(tmp_path / "f", ("configuration/files.json", content))
    with pytest.raises(BackupError, match="configuration in the backup can't be read"):
        restored(path, None, home)


def test_a_configuration_from_elsewhere_needs_a_place(tmp_path, home, said):
    own = {"option": "the configuration", "path": str(tmp_path / "cron.d/x"), "member": "configuration/g"}
    path = forge(tmp_path / "f", ("configuration/g", b"# a"), recorded(configuration=own))
    with said.raises(BackupError):
        restored(path, None, home)
    assert not (tmp_path / "cron.d").exists()


def test_a_backup_without_configuration_needs_one_that_exists(tmp_path, home, said):
    path = forge(tmp_path / "f", WITHOUT)
    with said.raises(BackupError):
        restored(path, tmp_path / "growd.toml", home)
    assert restored(path, None, home).written == []


async def test_restore_names_other_files_before_it_writes(database_server, tmp_path):
    target = tmp_path / "cron.d/x"
    path = forge(tmp_path / "f", FOLDER, ("configuration/001-x", b"PEM"), recorded(file_at(target)))
    async with places(database_server, tmp_path / "new") as new:
        command = ("restore", str(path), "--data", str(new.data), *new.settings())
        refused = await growd(*command)
        assert (refused.exit_code, f"outside /etc/growd: {target}" in refused.output) == (1, True)
        assert not new.data.exists()
        done = await growd(*command, "--other-files", "write")
        assert (done.exit_code, f"wrote {target}" in done.output) == (0, True), done.output


def test_a_link_is_damage(tmp_path):
    path = forge(tmp_path / "f", ("state/001/l", b""), links=["state/001/l"])
    with reading(path) as archive, pytest.raises(DamagedBackupError, match=r"state/001/l is not a file"):
        archive.checked()


def test_very_much_in_a_small_member_is_damage(tmp_path):
    path = forge(tmp_path / "f", (RECIPES, gzip.compress(bytes(140 << 20), 1)))
    with reading(path) as archive, pytest.raises(DamagedBackupError, match="more than 128 MB"):
        archive.checked()


async def test_odd_times_and_names_are_shown_or_refused(tmp_path):
    never = await growd("backup", "--verify", str(forge(tmp_path / "a", began=1e300)))
    assert (never.exit_code, "manifest.json can't be read" in never.output) == (1, True)
    shown = await growd("backup", "--verify", str(forge(tmp_path / "b", device="\x1b[31m")))
    assert (shown.exit_code, "\x1b" in shown.output) == (0, False)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"_id":5,"_rev":"1-a"}',
        b'{"_id":"a","_rev":"1-a","_attachments":{"x":5}}',
        b'{"_id":"a","_rev":"1-a","_revisions":[]}',
    ],
)
async def test_an_odd_line_is_damage(database_server, tmp_path, line):
    path = forge(tmp_path / "f", FOLDER, (RECIPES, gzip.compress(line + b"\n")), WITHOUT)
    async with places(database_server, tmp_path / "new") as new:
        done = await growd("restore", str(path), "--data", str(new.data), *new.settings())
    assert (done.exit_code, f"{RECIPES} has a line that is" in done.output) == (1, True), done.output
