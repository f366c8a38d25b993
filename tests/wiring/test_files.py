"""The lock of the data folder, credentials and certificates."""

import os
import re

import pytest

from growd.config import ConfigError
from growd.host.data_folder import StartError, own_folder, running_in
from growd.wiring.files import read_credentials
from support.full_disk import full_disk


def test_a_full_disk_is_reported_and_the_owner_of_a_folder_is_found_without_the_lock(tmp_path):
    message = re.escape(f"the data folder {tmp_path} can't be written to")
    with full_disk(largest=0), pytest.raises(StartError, match=message):
        own_folder(tmp_path)
    assert running_in(tmp_path) is None
    with own_folder(tmp_path):
        assert running_in(tmp_path) == str(os.getpid())
    assert running_in(tmp_path) is None


@pytest.mark.parametrize("make", ["symlink_to", "hardlink_to"])
def test_a_lock_file_that_is_a_link_is_refused(tmp_path, make):
    target = tmp_path / "precious"
    target.write_text("all of it")
    getattr(tmp_path / "growd.lock", make)(target)
    with pytest.raises(StartError, match=r"can't be written to: growd\.lock is a link"):
        own_folder(tmp_path)
    assert target.read_text() == "all of it"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("grower\n", "must have two lines"), ("a:b\nsecret\n", "the user must not contain a colon")],
)
def test_credentials_are_two_lines_and_others_are_reported_without_showing_them(tmp_path, text, reason):
    assert read_credentials("") is None
    file = tmp_path / "login"
    file.write_text("grower\np:äss\n", encoding="utf-8")
    assert read_credentials(str(file)) == ("grower", "p:äss")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"credentials_file: .*{reason}") as caught:
        read_credentials(str(file))
    assert "secret" not in str(caught.value)


def test_a_bare_name_is_a_systemd_credential_if_there_is_one(tmp_path, monkeypatch):
    given, here = tmp_path / "given", tmp_path / "here"
    given.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    (given / "couchdb").write_text("grower\ngiven\n")
    for name in ("couchdb", "other"):
        (here / name).write_text("grower\nhere\n")
    assert read_credentials("couchdb") == ("grower", "here")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(given))
    assert read_credentials("couchdb") == ("grower", "given")
    assert read_credentials("other") == ("grower", "here")
    (given / "secret_other").write_text("grower\nof a folder\n")
    assert read_credentials("other") == ("grower", "of a folder")
    assert read_credentials("./couchdb") == ("grower", "here")


@pytest.mark.parametrize(("mode", "is_open"), [(0o640, False), (0o644, True), (0o604, True), (0o660, True)])
def test_credentials_that_others_can_read_or_change_are_refused(tmp_path, mode, is_open):
    file = tmp_path / "login"
    file.write_text("grower\nsecret\n", encoding="utf-8")
    file.chmod(mode)
    if not is_open:
        assert read_credentials(str(file), "replication", is_secret=True) == ("grower", "secret")
        return
    words = rf"\[replication\] credentials_file: .*login is open to others \(mode {mode:04o}\)"
    with pytest.raises(ConfigError, match=words) as caught:
        read_credentials(str(file), "replication", is_secret=True)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("target", ["pipe", "/dev/zero"])
def test_credentials_in_what_is_no_regular_file_are_refused_at_once(tmp_path, target):
    os.mkfifo(tmp_path / "pipe")
    file = tmp_path / "login"
    file.symlink_to(tmp_path / target)
    with pytest.raises(ConfigError, match=r"\[couchdb\] credentials_file: .*login is not a regular file"):
        read_credentials(str(file))
