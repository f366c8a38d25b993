"""What programs of growd write to standard error has the priority err in the journal."""

import os
import subprocess
import sys

import pytest

from growd_machine.installation.tree import launcher_text

pytestmark = pytest.mark.long

GROWD = (sys.executable, "-m", "growd_cli")


def lines_in_the_journal(file, *command):
    """The lines on standard error of a program that fails, which systemd has connected to the journal."""
    with file.open("w") as journal:
        status = os.fstat(journal.fileno())
        environment = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        done = subprocess.run(
            command, stderr=journal, stdout=subprocess.DEVNULL, env=environment, check=False
        )
    assert done.returncode
    return file.read_text().splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--set", "http.port=x", "--set", "store.no_such=1"),  # a configuration with two faults
        ("run", "--data", "/proc/none"),  # a start that fails
        ("run", "--no-such-option"),
        ("safe", "--config", "/no/such/file"),
    ],
)
def test_each_line_of_a_failed_start_is_an_error(tmp_path, arguments):
    lines = lines_in_the_journal(tmp_path / "journal", *GROWD, *arguments, *data(tmp_path, arguments))
    assert lines
    assert all(line.startswith("<3>") for line in lines)
    assert not any("<3>" in line[1:] or "Traceback" in line for line in lines)


def data(folder, arguments):
    return () if "--data" in arguments else ("--data", str(folder / "data"))


def test_a_python_that_is_missing_is_an_error(tmp_path):
    launcher = tmp_path / "growd"
    launcher.write_text(launcher_text("1.0.0", ("2.7",), sys.executable))
    (line,) = lines_in_the_journal(tmp_path / "journal", sys.executable, launcher)
    assert line.startswith("<3>growd 1.0.0 in ")


def test_elsewhere_the_lines_are_as_they_are(tmp_path):
    environment = {**os.environ, "JOURNAL_STREAM": "1:2"}  # inherited
    done = subprocess.run(
        [*GROWD, "run", "--set", "http.port=x", "--data", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode
    assert done.stderr.startswith("growd: ")
