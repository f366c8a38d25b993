"""Errors in an upgrade that nobody expects."""

import os
from pathlib import Path

import pytest

from growd_machine.installation.health import GrowdHealth, ProbeError
from growd_machine.installation.machine import Machine
from growd_machine.installation.upgrade import Upgrade, UpgradeRun, begin
from growd_machine.installation.versions import VERSIONS, version_at
from support.upgrade_bench import NEW, OLD, make_machine
from support.upgrade_run import STANDINS, Time

SYSTEMCTL = """\
#!/bin/sh
[ "$1" = show ] || exit 0
number=$(cat {folder}/number 2>/dev/null || echo 1)
echo $((number + 1)) > {folder}/number
sed -n "${{number}}p" {folder}/states | tr ' ' '\\n'
"""
JOURNALCTL = """\
#!/bin/sh
cat <<END
could not make an output safe at the start: a pin
growd: the configuration has 2 faults:
  [http] port: one
  [store]: two
growd: no outputs are known
END
"""


class SilentDaemon:
    """Nothing answers."""

    def health(self):
        raise ProbeError("no answer")

    def read_points(self):
        pass


class FailingDaemon:
    """Its health raises what no caller expects."""

    def health(self):
        raise RuntimeError("a defect")

    def read_points(self):
        pass


def test_an_unexpected_error_in_the_trial_goes_back(tmp_path, monkeypatch):
    monkeypatch.setenv("UPGRADE_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{STANDINS}:{os.environ['PATH']}")
    make_machine(tmp_path, "good")
    outcome = upgraded(tmp_path, FailingDaemon())
    assert outcome.reason == "RuntimeError: a defect"
    assert (tmp_path / "opt/growd/current").readlink() == Path("versions", OLD)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        pytest.param(
            ["activating two success", "activating two exit-code", "activating three success"],
            "growd 1.1.0 ended at its start (exit-code): ",
            id="waits for its restart",
        ),
        pytest.param(
            ["activating two success", "activating three success"],
            "growd 1.1.0 ended at its start: ",
            id="has been restarted",
        ),
        pytest.param(["failed two exit-code"], "growd 1.1.0 ended at its start (exit-code): ", id="failed"),
        pytest.param(
            ["active two success", "active two success", "deactivating two signal"],
            "growd 1.1.0 ended during the trial (signal): ",
            id="in the trial",
        ),
    ],
)
def test_a_failed_upgrade_has_the_first_result_and_the_words_of_growd(tmp_path, monkeypatch, states, words):
    monkeypatch.setenv("UPGRADE_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{STANDINS}:{os.environ['PATH']}")
    make_machine(tmp_path, "good")
    (tmp_path / "programs").mkdir()
    for name, text in (("systemctl", SYSTEMCTL.format(folder=tmp_path)), ("journalctl", JOURNALCTL)):
        (tmp_path / "programs" / name).write_text(text)
        (tmp_path / "programs" / name).chmod(0o755)
    names = ("ActiveState", "InvocationID", "Result")
    lines = [
        " ".join(f"{name}={value}" for name, value in zip(names, state.split(), strict=True))
        for state in ["inactive one success", *states, "inactive three success", "active four success"]
    ]
    (tmp_path / "states").write_text("\n".join(lines) + "\n")
    outcome = upgraded(tmp_path, SilentDaemon())
    assert outcome.reason == f"{words}the configuration has 2 faults: [http] port: one; [store]: two"


def upgraded(root, daemon):
    machine, time = Machine(root), Time()
    begin(
        machine,
        Upgrade(source=OLD, target=NEW, began=1.0, before=GrowdHealth()),
        version_at(machine.at(VERSIONS) / OLD),
    )
    run = UpgradeRun(machine, daemon, lambda _: None, sleep=time.sleep, monotonic=time.monotonic)
    outcome = run.run()
    assert outcome is not None
    return outcome
