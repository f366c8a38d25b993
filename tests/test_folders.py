"""What is found on the disk at the start, and what can't be used is said in a sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from growd.folders import StartError, own_folder, read_credentials

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_owned_until_it_is_let_go(tmp_path: Path):
    with own_folder(tmp_path / "new" / "data"), pytest.raises(StartError, match="in use by another growd"):
        own_folder(tmp_path / "new" / "data")
    with own_folder(tmp_path / "new" / "data"):
        pass


def test_a_full_disk_is_said(tmp_path: Path):
    (tmp_path / "growd.lock").symlink_to("/dev/full")
    with pytest.raises(StartError, match=re.escape(f"the data folder {tmp_path} can't be written to")):
        own_folder(tmp_path)


def test_credentials_are_two_lines(tmp_path: Path):
    file = tmp_path / "login"
    file.write_text("grower\np:äss\n", encoding="utf-8")
    assert read_credentials(str(file)) == ("grower", "p:äss")
    assert read_credentials("") is None


@pytest.mark.parametrize(
    ("text", "reason"), [("grower\n", "must have two lines"), ("a:b\nsecret\n", "a user can't have a colon")]
)
def test_credentials_that_can_not_be_sent_are_said_but_not_shown(tmp_path: Path, text: str, reason: str):
    file = tmp_path / "login"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StartError, match=f"credentials_file: .*{reason}") as caught:
        read_credentials(str(file))
    assert "secret" not in str(caught.value)
