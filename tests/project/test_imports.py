"""Commands start quickly, since they import only what they need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# module: packages and modules that it must not import
UNNEEDED = {
    "growd_cli.main": {"aiohttp", "asyncio", "msgspec", "growd.config"},
    "growd_cli.status": {"aiohttp", "growd.wiring.app", "growd_drivers.hardware", "smbus2"},
    "growd_cli.topic": {"aiohttp", "growd.wiring.app", "growd_drivers.hardware", "smbus2"},
    "growd.wiring.rest": {"aiohttp", "asyncio", "growd.store", "growd.wiring.app", "paho"},
    "growd.wiring.alerts": {"apprise", "growd.alerts.channels", "aiomqtt", "paho"},
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
        "growd.alerts.channels",
        "growd.wiring.fault_services",
        "growd.access.authorization",
        "growd.access.sessions",
        "growd_analysis.reports.reading",
        "growd_analysis.reports.report",
        "growd.wiring.simulator",
        "growd_hwsim.chamber",
        "growd_hwsim.chips",
        "growd_hwsim.faults",
        "growd_hwsim.hardware",
        "matplotlib",
        "prometheus_client",
        "pyarrow",
        "serial",
        "xml",
    },
}


@pytest.mark.long
@pytest.mark.parametrize("module", UNNEEDED)
def test_a_command_imports_nothing_unneeded(module: str):
    program = f"import sys, json, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    )
    assert set(json.loads(done.stdout)) & UNNEEDED[module] == set()
