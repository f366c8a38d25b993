"""Crashes, hanging programs and kernels, broken configuration, full disk, power cuts: with real systemd."""

import pytest
from virtual_machine import VirtualMachine, empty_disk, new_disk

from support.chamber_machine import OFF, VALVE, ChamberMachine

DATA = "/var/lib/growd"


def test_the_valve_closes_after_kill_9(chamber, scenario):
    with scenario("kill -9 with the valve open"):
        chamber.open_valve()
        seconds = chamber.seconds_to(VALVE, OFF, "systemctl kill --kill-whom=main --signal=KILL growd")
        scenario.line(f"valve shut {seconds:.2f} s after kill -9")
        chamber.wait_until_it_runs()
        assert int(chamber.service("NRestarts")) == 1


def test_the_valve_closes_after_kill_9_with_a_broken_configuration(chamber, scenario):
    with scenario("kill -9 with the valve open and a broken growd.toml"):
        chamber.open_valve()
        chamber.run("echo 'interval_s = oops' >>/etc/growd/growd.toml")
        chamber.run("systemctl kill --kill-whom=main --signal=KILL growd")
        seconds = chamber.until(lambda: chamber.level(VALVE) == OFF)
        scenario.line(f"valve shut {seconds:.1f} s after kill -9, with a broken growd.toml")
        chamber.until(lambda: chamber.service("ActiveState") == "failed", 300)
        assert chamber.level(VALVE) == OFF
        assert "growd.toml" in chamber.run("journalctl -u growd -o cat -n 50")


def test_the_valve_closes_while_growd_is_stopped_and_the_watchdog_ends_it(chamber, scenario):
    with scenario("a hanging growd"):
        chamber.open_valve()
        growd = chamber.service("MainPID")
        seconds = chamber.seconds_to(VALVE, OFF, "systemctl kill --kill-whom=main --signal=STOP growd")
        scenario.line(f"valve shut {seconds:.2f} s after SIGSTOP (watchdog of 60 s)")
        assert chamber.service("MainPID") == growd
        assert chamber.run(f"ps -o stat= -p {growd}").startswith("T")
        chamber.until(lambda: chamber.service("NRestarts") == "1", 300)
        chamber.wait_until_it_runs()
        assert "watchdog" in chamber.run("journalctl -u growd -o cat | grep -i watchdog").lower()


def test_a_full_disk_loses_nothing_acknowledged(chamber, scenario):
    with scenario("a full disk"):
        chamber.run("systemctl stop growd")
        chamber.run(
            f"fallocate -l 64M /data.img && mkfs.ext4 -q /data.img && cp -a {DATA} /old && "
            f"mount -o loop /data.img {DATA} && cp -a /old/. {DATA} && chown -R growd:growd {DATA}"
        )
        chamber.run("systemctl start --no-block growd")
        chamber.wait_until_it_runs()
        chamber.publish("notes", "before")
        filled = chamber.machine.result(f"dd if=/dev/zero of={DATA}/filler bs=4k; sync")
        assert "No space left" in filled.errors
        acknowledged = {"before"} | written(chamber, "full", 20)
        chamber.until(lambda: chamber.measured("air_carbon_dioxide"))
        chamber.run(f"rm {DATA}/filler")
        chamber.until(lambda: written(chamber, "after", 1))
        acknowledged |= {"after 0"}
        chamber.until(lambda: acknowledged <= chamber.notes())
        scenario.line(f"{len(acknowledged)} acknowledged notes, all there")


def written(chamber, name, number):
    """The notes that growd acknowledged; others were refused."""
    return {note for i in range(number) if chamber.accepts("notes", note := f"{name} {i}")}


def test_all_acknowledged_notes_are_there_after_reboots_and_power_cuts(chamber, scenario):
    acknowledged = set()
    for way in ("reboot", "power cut", "reset"):
        with scenario(f"a chamber after a {way}"):
            acknowledged |= written(chamber, way, 5)
            if way == "reboot":
                chamber.machine.reboot()
            elif way == "power cut":
                chamber.machine.power_cut()
                chamber.machine.start()
            else:
                boot = chamber.machine.boot_id()
                chamber.machine.control("system_reset")
                chamber.machine.wait_until_ready(boot)
            chamber.wait_until_it_runs()
            assert len(acknowledged) >= 5
            chamber.until(lambda: acknowledged <= chamber.notes())  # noqa: B023


def test_the_hardware_watchdog_resets_a_hanging_kernel(chamber, scenario):
    with scenario("a hanging kernel"):
        chamber.run("mkdir -p /etc/systemd/system.conf.d")
        chamber.run(
            "printf '[Manager]\\nRuntimeWatchdogSec=15s\\n' >/etc/systemd/system.conf.d/growd-watchdog.conf"
        )
        chamber.run("systemctl daemon-reexec; sysctl -q kernel.panic=0 kernel.sysrq=1; sync")
        chamber.open_valve()
        boot = chamber.machine.boot_id()
        chamber.machine.result("(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &")
        chamber.machine.wait_until_ready(boot)
        chamber.wait_until_it_runs()


@pytest.mark.usefixtures("place")
def test_a_read_only_root_keeps_the_data_on_its_own_partition(image, share, installed, tmp_path, scenario):
    disk = new_disk(tmp_path / "root.qcow2", installed / "root.qcow2")
    data = empty_disk(tmp_path / "data.img", 256)
    with (
        scenario("a read-only root with overlayfs"),
        VirtualMachine(image, disk, tmp_path, share=share, disks=[data]) as machine,
    ):
        machine.start()
        machine.run(
            f"systemctl stop growd; mount /dev/vdb /mnt && cp -a {DATA}/. /mnt && umount /mnt && "
            f"echo '/dev/vdb {DATA} ext4 defaults 0 2' >>/etc/fstab"
        )
        machine.options = "overlayroot=tmpfs:recurse=0"
        machine.shut_down()
        machine.start()
        chamber = ChamberMachine(machine)
        assert machine.run("findmnt --noheadings --output=FSTYPE /") == "overlay"
        chamber.wait_until_it_runs()
        assert chamber.accepts("notes", "kept")
        machine.run("touch /lost")
        machine.power_cut()
        machine.start()
        chamber.wait_until_it_runs()
        chamber.until(lambda: "kept" in chamber.notes())
        assert machine.result("test -e /lost").status == 1
        machine.run(f"systemctl stop growd && umount {DATA} && systemctl start --no-block growd")
        chamber.until(lambda: "in memory" in chamber.run("journalctl -u growd -o cat -n 50"))
