"""No command writes over a file without --replace, or begins without a package that it needs."""

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


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("db", "export", "-o", "FILE", "--format", "parquet"), "Parquet needs pyarrow"),
        (("run", "export", "aaaaaa", "--format", "parquet"), "Parquet needs pyarrow"),
        (
            ("cloud", "export", "-o", "FILE", "--couchdb", "http://localhost:5", "--credentials", "LOGIN"),
            "Parquet needs pyarrow",
        ),
        ((*COMMANDS["plot"], "FILE"), "a picture needs matplotlib"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_remedy(words, what, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (tmp_path / "login").write_text("a\nb\n")
    (tmp_path / "login").chmod(0o600)
    places = {"FILE": str(tmp_path / "file"), "LOGIN": str(tmp_path / "login")}
    done = CliRunner().invoke(main, [places.get(word, word) for word in words])
    remedy = f"run pip install {what.rpartition(' ')[2]} in growd's environment"
    assert (done.exit_code, done.stderr) == (1, f"growd: {what}: {remedy}\n")
