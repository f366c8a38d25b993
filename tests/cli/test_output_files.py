"""No command writes over a file without --replace."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from growd_analysis.points.part_file import PartFile
from growd_cli.main import main
from support.couch_client import FILES

NOWHERE = ("--url", "http://127.0.0.1:9")
COMMANDS = {
    "plot": ("recipe", "plot", str(FILES / "recipes" / "demo_day.json"), "-o"),
    "report": ("run", "report", "aaaaaa", "-o"),
    "compare": ("run", "compare", "aaaaaa", "bbbbbb", "-o"),
    "rejected": ("import", "openag", "dump.json", "--rejected"),
    "points": ("db", "export", "-o"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_exists_is_kept(command, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)  # it does not come to a picture
    file = tmp_path / "kept"
    file.write_text("precious")
    done = CliRunner().invoke(main, [*COMMANDS[command], str(file), *NOWHERE])
    assert (done.exit_code, done.stderr) == (1, f"growd: {file} exists already: --replace replaces it\n")
    assert file.read_text() == "precious"


def test_with_replace_a_part_begins_again(tmp_path):
    for rows in (b"old\n", b"new\n"):
        with PartFile(tmp_path / "a", {}, replace=True) as file:
            file.write(rows, 1, ("", "", "x"))
            file.save()
    with PartFile(tmp_path / "a", {}) as file:
        assert file.mark.rows == 1
        file.finish()
    assert (tmp_path / "a").read_bytes() == b"new\n"
