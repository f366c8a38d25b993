"""An upgrade that is killed, or cut off from power, at any step ends with the old version or the new one."""

import json
import random
import shutil
import signal

import pytest

from growd.store.local import SCHEMA_VERSION
from growd_machine.installation.machine import Machine
from growd_machine.installation.versions import locked
from support.upgrade_bench import (
    BACKUP,
    CONFIGURATION,
    NEW,
    OLD,
    OLDER,
    boot,
    make_machine,
    runner,
    schema_of,
)

SEED = 15
RANDOM_ROUNDS = 40
MODES = {"good": NEW, "migrates": NEW, "dies": OLD, "dies migrates": OLD}
"""How the new version behaves, and the version that runs at the end."""


@pytest.fixture(scope="module")
def upgrades():
    with runner() as made:
        yield made


class Case:
    """One machine in a state of an upgrade; made new for each interruption."""

    def __init__(self, folder, mode, upgrades):
        self._template = folder / "template"
        self._upgrades = upgrades
        self.mode = mode
        self.root = folder / "root"
        make_machine(self.root, mode)
        self.root.rename(self._template)

    def fresh(self):
        """The machine as it was before any upgrade."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.rmtree(f"{self.root}.stash", ignore_errors=True)
        shutil.copytree(self._template, self.root, symlinks=True)
        return self.root

    def begin(self, **how):
        return self._upgrades.run(self.root, begin=True, **how)

    def interrupt(self, **how):
        self.fresh()
        return self.begin(**how)

    def boundaries(self, every):
        """Each step of an upgrade that migrates, or some of them; fewer of one that has no such step."""
        assert self.interrupt() == 0
        self.check()
        last = int(self.root.with_name("root.count").read_text())
        assert last > 30
        return range(1, last + 1, every if "migrates" in self.mode else 3 * every)

    def finish(self):
        """The service runs again, as after a kill or at a boot."""
        assert self._upgrades.run(self.root) == 0
        self.check()

    def check(self):
        self._check_program()
        self._check_data()
        self._check_outputs()

    def _check_program(self):
        home = self.root / "opt/growd"
        current, previous = ((home / name).readlink().name for name in ("current", "previous"))
        has_begun = (home / "upgraded.json").exists()
        assert current == (MODES[self.mode] if has_begun else OLD)
        assert previous == (OLD if current == NEW else OLDER)
        names = {"current", "previous", "versions"} | ({"upgraded.json"} if has_begun else set())
        assert {path.name for path in home.iterdir()} == names
        assert {path.name for path in (home / "versions").iterdir()} == {current, previous}
        version = current.partition("-")[0]
        for path in ("run/answering", "opt/growd/current/version"):
            assert (self.root / path).read_text().strip() == version
        for path in ("etc/systemd/system/growd.service", "run/unit"):
            assert (self.root / path).read_text() == f"unit of {version}\n"
        assert (self.root / "run/active").exists()

    def _check_data(self):
        data = self.root / "var/lib/growd"
        is_new = (self.root / "opt/growd/current").readlink().name == NEW
        schema = SCHEMA_VERSION + (is_new and "migrates" in self.mode)
        assert schema_of(data / "growd.sqlite3") == schema
        recorded = (data / "recorded").read_text().splitlines()
        kept = [(path / "recorded").read_text().splitlines() for path in data.glob("backups/*-trial")]
        assert bool(kept) <= ("dies migrates" in self.mode)
        assert (data / "backups" / BACKUP).exists() == (is_new and "migrates" in self.mode)
        acknowledged = (self.root / "acknowledged").read_text().splitlines()
        assert set(acknowledged) == set(recorded).union(*kept)
        assert (self.root / "etc/growd/growd.toml").read_text() == CONFIGURATION
        assert not list(data.rglob("*.part"))
        assert not (data / "hold-upgrade.json").exists()

    def _check_outputs(self):
        pins = [line.split() for line in (self.root / "pins").read_text().splitlines()]
        on = {(version, phase) for level, version, phase in pins if level == "1"}
        old = {("1.0.0", phase) for phase in ("none", "forward", "back")}
        assert on <= old | {("1.1.0", "accepted"), ("1.1.0", "none")}
        assert pins[-1][0] == "1"


@pytest.fixture(params=MODES)
def case(request, tmp_path, upgrades):
    return Case(tmp_path, request.param, upgrades)


STEPS = [pytest.param(9, id="some"), pytest.param(1, id="each", marks=pytest.mark.nightly)]


@pytest.mark.kill
@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", STEPS)
def test_an_upgrade_killed_at_a_step_is_finished_by_the_next_run(case, every):
    for boundary in case.boundaries(every):
        assert case.interrupt(last=boundary) == -signal.SIGKILL
        case.finish()


@pytest.mark.kill
@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", STEPS)
@pytest.mark.parametrize("cut", [pytest.param("none", marks=pytest.mark.nightly), "some"])
def test_an_upgrade_without_power_at_a_step_is_finished_after_the_boot(case, cut, every):
    for boundary in case.boundaries(every):
        assert case.interrupt(last=boundary, cut=cut) == -signal.SIGKILL
        boot(case.root)
        case.finish()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_an_upgrade_killed_at_any_time_is_finished_by_the_next_run(case):
    moments = random.Random(SEED)
    for _ in range(RANDOM_ROUNDS // len(MODES)):
        case.interrupt(after_ms=moments.randint(1, 400))
        case.finish()


@pytest.fixture
def migration(tmp_path, upgrades):
    return Case(tmp_path, "migrates", upgrades)


@pytest.mark.kill
def test_a_disk_without_room_for_the_backup_keeps_the_old_version(migration):
    assert migration.interrupt(largest=2_000) == 0
    migration.mode = "dies migrates"  # the old version runs at the end
    migration.check()
    outcome = json.loads((migration.root / "opt/growd/upgraded.json").read_text())
    assert "File too large" in outcome["reason"]


@pytest.mark.kill
def test_a_disk_without_room_for_the_state_changes_nothing(migration):
    assert migration.interrupt(largest=100) == 1
    migration.finish()


@pytest.mark.kill
def test_only_one_upgrade_runs_at_a_time(migration):
    with locked(Machine(migration.fresh())):
        assert migration.begin() == 1
    migration.finish()
