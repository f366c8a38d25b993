"""`growd driver`: list and test drivers of other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.own_packages import EXAMPLE, unpacked, wheel_of, written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    return unpacked(wheel_of(EXAMPLE, folder), folder / "installed")


def growd(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "growd", "driver", *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=False,
    )


def test_the_drivers_of_installed_packages_are_listed(example):
    done = growd(example, "list")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split() == ["sht31_example", "growd-sht31", "1.0.0", "ok"]


def test_a_driver_that_can_not_be_loaded_is_listed_with_the_reason(example):
    folder = written(example, "growd-odd", {"odd": "KIND"}, "raise SystemExit(3)")
    done = growd(folder, "list", "--json")
    assert done.returncode == 1, done.stderr
    odd, good = json.loads(done.stdout)
    assert odd["kind"] == "odd"
    assert odd["reason"].endswith("can't be loaded: its import failed: SystemExit: 3")
    assert good["variables"] == ["air_humidity", "air_temperature"]
    tested = growd(folder, "test", "growd-odd")
    assert tested.returncode == 1
    assert "loads" in tested.stdout
    assert "0 of 1 trials passed." in tested.stdout


def test_the_table_of_faults_is_played_with_a_package(example):
    done = growd(example, "test", "growd_SHT31")
    assert done.returncode == 0, done.stdout + done.stderr
    *rows, last = done.stdout.splitlines()[1:]
    assert last == f"{len(rows)} of {len(rows)} trials passed."
    assert all(row.split()[0] == "sht31_example" and row.endswith("ok") for row in rows)
    assert len(rows) > 20


def test_a_package_that_fails_a_trial_is_told_what_to_do(example, tmp_path):
    source = (EXAMPLE / "sht31_example.py").read_text().replace("if crc8(part[:2]) != part[2]", "if False")
    folder = tmp_path / "changed"
    folder.mkdir()
    for file in example.glob("**/*"):
        if file.is_file() and "odd" not in file.name and "odd" not in file.parent.name:
            place = folder / file.relative_to(example)
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(file.read_bytes())
    (folder / "sht31_example.py").write_text(source)
    done = growd(folder, "test", "growd-sht31", "--json")
    assert done.returncode == 1
    (row,) = [row for row in json.loads(done.stdout) if row["trial"] == "fault bad_crc"]
    assert row["failure"].startswith("it gave a reading: air_temperature 22")
    assert row["advice"].startswith("Compare the checksum of each answer")


def test_a_package_that_is_not_installed_is_refused(tmp_path):
    done = growd(tmp_path, "test", "growd-missing")
    assert done.returncode == 1
    assert "growd-missing is not installed" in done.stderr
