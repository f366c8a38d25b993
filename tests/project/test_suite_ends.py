"""The suite ends, also where signals are ignored and when a test hangs."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
HANGING = """
import pathlib, subprocess, sys, pytest
from support.processes import Ending

FOR_EVER = [sys.executable, "-c", "import time; time.sleep(1e6)"]

def started(process):
    (pathlib.Path(__file__).parent / f"{process.pid}.started").touch()
    return process

@pytest.mark.timeout(2, func_only=True)
def test_waits_inside():
    with started(Ending(FOR_EVER, stdout=subprocess.PIPE)) as process:
        process.stdout.read()

@pytest.mark.timeout(2, func_only=True)
def test_waits_at_the_end():
    with started(Ending(FOR_EVER)):
        pass

def test_forgets():
    started(subprocess.Popen(FOR_EVER))
"""
SWALLOWING = """
import time, pytest

@pytest.mark.timeout(1)
def test_swallows_its_time_limit():
    while True:
        try:
            time.sleep(1e6)
        except BaseException:
            pass
"""
SETTING = """
import os

def test_leaves_a_path():
    sys.path.insert(0, "/nowhere")

def test_leaves_a_variable():
    os.environ["GROWD_LEFT"] = "1"
"""


def pytest_run(*arguments, before=None):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100, preexec_fn=before
    )


def is_there(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def suite_run(folder, tests, checks=""):
    (folder / "test_it.py").write_text(tests)
    (folder / "conftest.py").write_text(
        f"import sys; sys.path[:0] = [{str(ROOT / 'tests')!r}]\nfrom tests.conftest import *\n{checks}"
    )
    return pytest_run(str(folder), "--rootdir", str(folder), "-c", str(ROOT / "pyproject.toml"))


def test_tests_whose_processes_hang_end_and_leave_none_and_changed_settings_are_errors(tmp_path):
    ended = suite_run(tmp_path, HANGING + SETTING)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    started = [int(file.stem) for file in tmp_path.glob("*.started")]
    assert len(started) == 3, ended.stdout
    assert not any(map(is_there, started))
    assert re.search("ERROR .*test_leaves_a_path", ended.stdout)
    assert re.search("ERROR .*test_leaves_a_variable", ended.stdout)


def test_a_test_that_swallows_its_time_limit_ends_the_run_with_its_stack(tmp_path):
    ended = suite_run(tmp_path, SWALLOWING, "import tests.conftest\ntests.conftest.OVERTIME_S = 1\n")
    assert ended.returncode == 1, ended.stdout
    assert "test_swallows_its_time_limit" in ended.stderr


def test_a_test_that_sends_a_signal_passes_where_it_is_ignored():
    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    name = "tests/project/test_scripts.py::test_ctrl_c_stops_the_installation_and_the_next_start_repeats_it"
    ended = pytest_run(name, before=ignore)
    assert ended.returncode == 0, ended.stdout + ended.stderr
