"""`growd driver`: list and test drivers of other packages."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from growd_cli.driver_skeleton import fault_of_name
from growd_cli.main import main
from support.own_packages import EXAMPLE, importable, unpacked, wheel_of, written
from support.program import said

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    return unpacked(wheel_of(EXAMPLE, folder), folder / "installed")


@pytest.fixture
def installed(example):
    with importable(example):
        yield


def growd(*arguments):
    return CliRunner().invoke(main, ["driver", *arguments], catch_exceptions=False)


def test_an_installed_package_is_listed_and_passes_the_table_of_faults(installed):
    done = growd("list")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].split() == ["sht31_example", "growd-sht31", "1.0.0", "ok"]
    done = growd("test", "growd_SHT31")
    assert done.exit_code == 0, done.output
    *rows, last = done.stdout.splitlines()[1:]
    assert last == f"{len(rows)} of {len(rows)} trials passed."
    assert all(row.split()[0] == "sht31_example" and row.endswith("ok") for row in rows)
    names = {row.removeprefix("sht31_example").removesuffix("ok").strip() for row in rows}
    assert {f"fault {kind}" for kind in ("absent", "nak", "timeout", "hang", "bad_crc", "frozen")} <= names
    assert {"power lost between two readings", "200 random answers", "fault stuck of the bus"} <= names


def test_a_driver_that_can_not_be_loaded_is_listed_with_the_reason(installed, tmp_path):
    with importable(written(tmp_path, "growd-odd", {"odd": "KIND"}, "raise SystemExit(3)")):
        listed, tested = growd("list", "--json"), growd("test", "growd-odd")
    odd, good = json.loads(listed.stdout)
    assert (listed.exit_code, odd["kind"]) == (1, "odd")
    assert odd["reason"].endswith("can't be loaded: its import failed: SystemExit: 3")
    assert good["variables"] == ["air_humidity", "air_temperature"]
    assert (tested.exit_code, "loads" in tested.stdout) == (1, True)
    assert "0 of 1 trials passed." in tested.stdout


def test_a_package_that_fails_a_trial_is_told_what_to_do(tmp_path):
    folder = unpacked(wheel_of(EXAMPLE, tmp_path), tmp_path / "installed")
    source = (EXAMPLE / "sht31_example.py").read_text().replace("if crc8(part[:2]) != part[2]", "if False")
    (folder / "sht31_example.py").write_text(
        source.replace("    def read", "    print('made')\n\n    def read")
    )
    with importable(folder):
        done = growd("test", "growd-sht31", "--json")
    assert "made" in done.stderr  # what a driver prints is no result
    assert done.exit_code == 1
    (row,) = [row for row in json.loads(done.stdout) if row["trial"] == "fault bad_crc"]
    assert row["failure"].startswith("it gave a reading: air_temperature 22")
    assert row["advice"].startswith("Compare the checksum of each answer")


def test_a_driver_without_a_bus_is_only_loaded(tmp_path):
    source = """
from growd_drivers.kinds import SensorKind
class Camera: pass
KIND = SensorKind("Camera", "growd_odd:Camera", {"leaves": "leaf_count"}, opens="none", api=1)
"""
    with importable(written(tmp_path / "odd", "growd-odd", {"odd": "KIND"}, source)):
        done = growd("test", "growd-odd")
    assert done.exit_code == 0, done.output
    assert "There are no other trials, since nothing is simulated where it is." in done.stdout


@pytest.mark.parametrize("kind", ["i2c", "serial", "output"])
def test_a_new_package_passes_its_own_tests(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = growd("new", "growd-acme-probe", f"--{kind}")
    assert "growd-acme-probe/growd_acme_probe.py" in made.stdout
    project = tmp_path / "growd-acme-probe"
    chip = (project / "growd_acme_probe_chip.py").read_text()
    assert "import growd_acme_probe" not in chip
    assert "from growd_acme_probe" not in chip
    installed = unpacked(wheel_of(project, tmp_path / "dist"), tmp_path / "installed")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project)]
    environ = os.environ | {"PYTHONPATH": str(installed)}
    tested = subprocess.run(command, cwd=project, capture_output=True, text=True, env=environ, check=False)
    assert tested.returncode == 0, tested.stdout
    config = tmp_path / "growd.toml"
    section = (project / "README.md").read_text().partition("```toml\n")[2].partition("```")[0]
    needed = '[[sensor]]\nname = "room"\nkind = "bme280"\n' if kind == "output" else ""
    config.write_text(f"[simulator]\nenabled = true\n{needed}{section}")
    with importable(installed):
        status, printed = said("check", "--config", str(config))
    assert (status, "can't be loaded" in printed) == (0, False), printed
    assert "acme_probe" in section


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("../x", "must be of letters a-z, digits and -"),
        ("x--y", "must be of letters a-z, digits and -"),
        ("class", "can't be a name in Python"),
        ("growd-1wire", "can't be a name in Python"),
        ("growd", "is taken: Python finds another module growd"),
        ("growd-scd30", "is taken: growd has a kind scd30"),
        ("growd-relay", "is taken: growd has a kind relay"),
        ("growd-sample", "is taken: the driver has another Sample"),
        ("growd-acme-co2", ""),
        ("acme", ""),
    ],
)
def test_names_that_no_package_can_have_have_a_fault(name, fault):
    assert fault_of_name(name) == fault


def test_names_and_folders_that_are_taken_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "growd-x").mkdir()
    taken = growd("new", "json")
    assert taken.exit_code == 2
    assert "NAME 'json' is taken: Python finds another module json; choose another" in taken.stderr
    there = growd("new", "growd-x")
    assert (there.exit_code, there.stderr) == (1, "growd: growd-x exists already; choose another name\n")
    missing = growd("test", "growd-missing")
    assert (missing.exit_code, "growd-missing is not installed" in missing.stderr) == (1, True)
    assert [file.name for file in tmp_path.iterdir()] == ["growd-x"]
