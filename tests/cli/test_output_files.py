"""No command writes over a file without --replace, or begins without a package that it needs."""

import pytest
from click.testing import CliRunner

from growd_cli.main import main

NOWHERE = ("--url", "http://127.0.0.1:9")
COMMANDS = (
    ("run", "report", "aaaaaa", "-o"),
    ("run", "compare", "aaaaaa", "bbbbbb", "-o"),
    ("import", "openag", "dump.json", "--rejected"),
    ("db", "export", "-o"),
)


def test_a_file_that_exists_is_kept(tmp_path):
    file = tmp_path / "kept"
    file.write_text("precious")
    for words in COMMANDS:
        done = CliRunner().invoke(main, [*words, str(file), *NOWHERE])
        assert (done.exit_code, done.stderr) == (1, f"growd: {file} exists already: --replace replaces it\n")
        assert file.read_text() == "precious"


@pytest.mark.parametrize(
    "words",
    [
        ("db", "export", "-o", "FILE", "--format", "parquet"),
        ("run", "export", "aaaaaa", "--format", "parquet"),
        ("cloud", "export", "-o", "FILE", "--couchdb", "http://localhost:5", "--credentials", "LOGIN"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_remedy(words, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (tmp_path / "login").write_text("a\nb\n")
    (tmp_path / "login").chmod(0o600)
    places = {"FILE": str(tmp_path / "file"), "LOGIN": str(tmp_path / "login")}
    done = CliRunner().invoke(main, [places.get(word, word) for word in words])
    remedy = "run pip install pyarrow in growd's environment"
    assert (done.exit_code, done.stderr) == (1, f"growd: Parquet needs pyarrow: {remedy}\n")
