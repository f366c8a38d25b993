"""Errors in an upgrade that nobody expects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from growd.installation.health import GrowdHealth
from growd.installation.machine import Machine
from growd.installation.upgrade import Upgrade, UpgradeRun, begin
from growd.installation.versions import VERSIONS, version_at
from support.upgrade_bench import NEW, OLD, make_machine
from support.upgrade_run import STANDINS, Time

if TYPE_CHECKING:
    import pytest


class FailingDaemon:
    """Its health raises what no caller expects."""

    def health(self) -> GrowdHealth:
        raise RuntimeError("a defect")

    def read_points(self) -> None:
        pass


def test_an_unexpected_error_in_the_trial_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPGRADE_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{STANDINS}:{os.environ['PATH']}")
    make_machine(tmp_path, "good")
    machine, time = Machine(tmp_path), Time()
    begin(
        machine,
        Upgrade(source=OLD, target=NEW, began=1.0, before=GrowdHealth()),
        version_at(machine.at(VERSIONS) / OLD),
    )
    run = UpgradeRun(machine, FailingDaemon(), lambda _: None, sleep=time.sleep, monotonic=time.monotonic)
    outcome = run.run()
    assert outcome is not None
    assert outcome.reason == "RuntimeError: a defect"
    assert (tmp_path / "opt/growd/current").readlink() == Path("versions", OLD)
