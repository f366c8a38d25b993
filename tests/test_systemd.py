from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[1] / "systemd" / "growd.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd on this machine")
def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path):
    # it checks that the program is there, so a copy names one that is
    unit = tmp_path / "growd.service"
    unit.write_text(UNIT.read_text().replace("/opt/growd/bin/growd", "/bin/true"))
    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    about_it = [line for line in verdict.stderr.splitlines() if "growd" in line]
    assert verdict.returncode == 0, verdict.stderr
    assert about_it == []
