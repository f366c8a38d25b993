"""`growd install`, `upgrade` and `uninstall` on a machine that has growd as a Debian package."""

import pytest
from click.testing import CliRunner

from growd_cli.main import main as growd


@pytest.mark.parametrize(
    "command",
    [
        ["install", "--dry-run"],
        ["upgrade", "--back"],
        ["upgrade", "growd-99-py3-none-any.whl"],
        ["uninstall", "--purge"],
    ],
    ids=" ".join,
)
def test_the_answer_is_one_sentence_that_names_apt(command, tmp_path, monkeypatch):
    (tmp_path / "usr/lib/growd").mkdir(parents=True)
    (tmp_path / "usr/lib/growd/version.json").write_text("{}", encoding="utf-8")
    (tmp_path / "growd-99-py3-none-any.whl").touch()
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(growd, [*command, "--root", str(tmp_path)])
    assert answer.exit_code != 0
    assert "growd is installed as a Debian package: use apt" in answer.output
    assert len(answer.output.strip().splitlines()) == 1
    assert not (tmp_path / "opt").exists()
