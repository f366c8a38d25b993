"""Each locked package has a wheel for a Raspberry Pi with Python 3.11, 3.12 and 3.13."""

import json
import re
import subprocess
import sys

import pytest

from support.checkout import ROOT
from support.package_index import index_error

LOCKS = [ROOT / f"requirements/{name}.lock" for name in ("build", "run", "node")]
PAGE = ROOT / "docs/packages.md"
TABLE = ROOT / "requirements/wheels.md"
LGPIO = """\
lgpio==0.2.2.0 ; platform_machine == 'aarch64' \\
    --hash=sha256:a2f71fb95b149d8ac82c7c6bae70f054f6dc42a006ad35c90c7d8e54921fbcf4 \\
    --hash=sha256:d907db79292c721c605af08187385ddb3b7af09907e1ffca56cf0cd6558ace0a
"""
"""It has wheels for Python 3.11 and 3.12 only, here with their hashes."""


def wheels(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "tools/wheels", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture
def _index():
    if reason := index_error():
        pytest.skip(reason)


def test_the_table_names_each_locked_version():
    page = TABLE.read_text(encoding="utf-8").partition("<!-- end of tools/wheels -->")[0]
    named = re.findall(r"^\| ([\w-]+) \| (\d\S*) \|", page, re.MULTILINE)
    pure = page.partition(" kB): ")[2].partition(".\n")[0]
    named += [tuple(each.split(" ")) for each in pure.split(", ")]
    locked = re.findall(
        r"^([\w-]+)==(\S+) (?!; sys_platform == 'win32')",
        "".join(lock.read_text(encoding="utf-8") for lock in LOCKS),
        re.MULTILINE,
    )
    assert sorted(set(named)) == sorted(set(locked))


def test_the_page_names_each_npm_package_that_is_served():
    rest = PAGE.read_text(encoding="utf-8").partition("## npm packages")[2]
    wanted = json.loads((ROOT / "page/package.json").read_text(encoding="utf-8"))["dependencies"]
    assert dict(re.findall(r"^\| ([\w-]+) \| (\d\S*) \|", rest, re.MULTILINE)) == wanted


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_index")
def test_the_index_has_the_wheels_of_the_table():
    answer = wheels("--check", TABLE)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_index")
def test_a_package_without_a_wheel_for_one_python_is_an_error(tmp_path):
    (lock := tmp_path / "pins.lock").write_text(LGPIO, encoding="utf-8")
    answer = wheels(lock)
    assert answer.returncode == 1
    assert answer.stderr.startswith(
        "tools/wheels: pins.lock for aarch64 with glibc 2.36 and Python 3.13: ERROR: "
    )
    assert "lgpio==0.2.2.0" in answer.stderr
