"""Upgrades of an installed growd: to a good version, to one that does not start, and through a power cut."""

import json

import pytest
from virtual_machine import locked

from support.chamber_machine import OFF, VALVE
from support.changed_bundle import changed_bundle

NEWER = "99.1.0"
TRIAL = "growd upgrade --trial 30"


@pytest.fixture(scope="session")
def newer(share, common):
    """The path of a bundle of a newer version, in the machine."""
    return _made(share, common, "newer.pyz", "")


@pytest.fixture(scope="session")
def broken(share, common):
    """That of a bundle whose growd does not start."""
    return _made(share, common, "broken.pyz", "wiring/app.py")


def _made(share, common, name, broken_module):
    with locked(common / "changed.lock"):
        if not (share / name).exists():
            changed_bundle(share / "growd.pyz", share / "changing", NEWER, broken_module)
            (share / "changing").rename(share / name)
    return f"/host/{name}"


def test_an_upgrade_ends_with_the_new_version(chamber, newer, scenario):
    with scenario("upgrade"):
        assert chamber.accepts("notes", "before the upgrade")
        chamber.run(f"{TRIAL} {newer}", timeout_s=600)
        assert version(chamber) == NEWER
        assert "upgrade.json" not in chamber.run("ls /opt/growd")
        chamber.wait_until_it_runs()
        chamber.until(lambda: "before the upgrade" in chamber.notes())
        chamber.open_valve()


def test_a_version_that_does_not_start_is_rolled_back(chamber, broken, scenario):
    with scenario("upgrade to a version that does not start"):
        old = version(chamber)
        upgrade = chamber.machine.result(f"{TRIAL} {broken}", timeout_s=600)
        assert upgrade.status == 1
        assert "Traceback" not in upgrade.output + upgrade.errors
        assert version(chamber) == old
        assert chamber.level(VALVE) == OFF
        chamber.wait_until_it_runs()
        chamber.open_valve()


def test_a_power_cut_during_an_upgrade_leaves_the_old_or_the_new_version(chamber, newer, scenario):
    with scenario("power cut during an upgrade"):
        old = version(chamber)
        chamber.run(f"systemd-run --unit=trial {TRIAL} {newer}")
        chamber.until(lambda: chamber.machine.result("test -e /opt/growd/upgrade.json").status == 0, 600)
        chamber.machine.power_cut()
        chamber.machine.start()
        chamber.until(lambda: chamber.machine.result("test -e /opt/growd/upgrade.json").status != 0, 600)
        chamber.wait_until_it_runs()
        assert version(chamber) in {old, NEWER}
        chamber.open_valve()


def version(chamber):
    return str(json.loads(chamber.run("cat /opt/growd/current/version.json"))["version"])
