"""Commands start quickly, since they import only what they need; and no imports go in a circle."""

import json
import os
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter

import grimp
import pytest

from growd.config.profiles import profile_path
from support.checkout import ROOT

MOST_MODULES = 220
"""Of the daemon, for the smallest chamber: each takes 30 kB and a millisecond of the start."""

# module: packages and modules that it must not import
UNNEEDED = {
    "growd_cli.__main__": {"click", "logging"},
    "growd_cli.main": {"aiohttp", "asyncio", "logging", "msgspec", "growd.config"},
    "growd_cli.status": {"aiohttp", "growd.wiring.app", "growd_drivers.hardware", "smbus2"},
    "growd_cli.topic": {"aiohttp", "growd.wiring.app", "growd_drivers.hardware", "smbus2"},
    "growd.wiring.rest": {"aiohttp", "asyncio", "growd.store", "growd.wiring.app", "paho"},
    "growd_home.part": {"prometheus_client"},
    "growd_alerts.part": {"apprise", "growd_alerts.alerting", "growd_alerts.messages", "aiomqtt", "paho"},
    "growd_cli.run": {"aiohttp", "growd.store", "growd.wiring.app"},
    "growd.wiring.app": {
        "adafruit_as7341",
        "adafruit_bme280",
        "adafruit_scd30",
        "adafruit_scd4x",
        "adafruit_sht31d",
        "adafruit_sht4x",
        "paho",
        "apprise",
        "difflib",
        "growd.access.authorization",
        "growd.access.sessions",
        "growd_analysis.reports.reading",
        "growd_analysis.reports.report",
        "growd_simulation",
        "growd_hwsim",
        "matplotlib",
        "pyarrow",
        "serial",
        "xml",
    },
}


@pytest.mark.long
@pytest.mark.parametrize("module", UNNEEDED)
def test_a_command_imports_nothing_unneeded(module):
    program = f"import sys, json, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    )
    assert set(json.loads(done.stdout)) & UNNEEDED[module] == set()


@pytest.mark.long
def test_the_smallest_chamber_imports_little(tmp_path):
    program = (
        "import json, os, signal, sys, growd_cli.run as run\n"
        "def greet(*_, **__):\n"
        "    print(json.dumps(list(sys.modules)), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "run._greet = greet\n"
        "run.run(['--port', '0', '--config', sys.argv[1], '--data', sys.argv[2]])"
    )
    pins = tmp_path / "pins"
    pins.touch()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests/support/pins"), "PINS_FILE": str(pins)}
    done = subprocess.run(
        [sys.executable, "-c", program, profile_path("minimal"), tmp_path / "data"],
        capture_output=True, text=True, check=True, timeout=100, env=environment,
    )  # fmt: skip
    imported = json.loads(done.stdout.splitlines()[0])
    assert "growd_hwsim" not in imported
    assert len([each for each in imported if f"{each}.".startswith("growd.")]) <= MOST_MODULES
    assert "frozenlist._frozenlist" not in imported


def test_no_imports_go_in_a_circle():
    """Those for types neither, nor those in functions."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    graph = grimp.build_graph(*contracts["root_packages"], cache_dir=None)
    imports = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError with the circle
