"""The state of the machine, read from files like those of a Raspberry Pi."""

import asyncio
import os
import shutil

import pytest

from growd import __version__
from growd.host import machine
from growd.host.machine import MachineNode, read_machine
from growd.runtime import clock
from growd.runtime.clock import RealClock
from support.daemon import serving

FILES = {
    "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
    "proc/uptime": "123456.78 400000.00\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n',
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "48312\n",
    "sys/class/thermal/thermal_zone1/temp": "-1500\n",
    "sys/class/thermal/thermal_zone2/temp": "nothing\n",
    "sys/devices/platform/soc/soc:firmware/get_throttled": "50005\n",
}


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def read(root):
    return read_machine(root, RealClock(), root)


def test_a_raspberry_pi_provides_all_values(tmp_path):
    write(tmp_path, FILES)
    found = read(tmp_path)
    assert found.model == "Raspberry Pi 4 Model B Rev 1.4"
    assert found.system == "Debian GNU/Linux 12 (bookworm)"
    assert found.uptime_s == 123_456.78
    assert found.temperatures_degc == {"cpu-thermal": 48.312, "thermal_zone1": -1.5}
    assert found.troubles == ["under-voltage", "throttled"]
    assert found.earlier_troubles == ["under-voltage", "throttled"]
    assert found.growd_version == __version__
    usage = shutil.disk_usage(tmp_path)
    assert found.disk_bytes == usage.total
    assert found.disk_free_bytes == pytest.approx(usage.free, rel=0.1)


@pytest.mark.parametrize(
    ("bits", "now", "earlier"),
    [
        ("0", [], []),
        ("8", ["soft temperature limit"], []),
        ("20002", ["frequency capped"], ["frequency capped"]),
        ("80000", [], ["soft temperature limit"]),
    ],
)
def test_the_bits_of_the_firmware_have_names(tmp_path, bits, now, earlier):
    write(tmp_path, {"sys/bus/platform/drivers/raspberrypi-firmware/soc:firmware/get_throttled": bits})
    found = read(tmp_path)
    assert (found.troubles, found.earlier_troubles) == (now, earlier)


@pytest.mark.parametrize(("alarm", "troubles"), [("1\n", ["under-voltage"]), ("0\n", []), ("?\n", None)])
def test_a_kernel_without_the_firmware_file_reports_the_voltage(tmp_path, alarm, troubles):
    other = "sys/class/hwmon/hwmon0"
    write(tmp_path, {f"{other}/name": "cpu_thermal\n", f"{other}/in0_lcrit_alarm": "1\n"})
    write(tmp_path, {f"{other[:-1]}1/name": "rpi_volt\n", f"{other[:-1]}1/in0_lcrit_alarm": alarm})
    found = read(tmp_path)
    assert (found.troubles, found.earlier_troubles) == (troubles, None)


def test_unavailable_values_are_none(tmp_path):
    found = read_machine(tmp_path / "nowhere", RealClock(), tmp_path)
    assert found.model is found.system is found.uptime_s is found.troubles is found.disk_free_bytes is None
    assert found.temperatures_degc == {}


async def test_the_node_omits_unavailable_values_and_reuses_a_fresh_reading(tmp_path):
    write(tmp_path, {"proc/uptime": "12.50 1.00\n"})
    async with serving() as daemon:
        node = MachineNode(daemon.bus, tmp_path, tmp_path)
        found = (await daemon.ask("GET", "/node/machine")).json["machine"]
        write(tmp_path, {"proc/uptime": "2 2\n"})
        again = (await daemon.ask("GET", "/node/machine")).json["machine"]
        await node.close()
    assert found["uptime_s"] == again["uptime_s"] == 12.5
    assert found["growd_version"] == __version__
    assert found["growd_uptime_s"] > 0
    assert found["clock_synchronised"] in {True, False}
    assert not {"model", "temperatures_degc", "troubles"} & found.keys()


@pytest.mark.parametrize(("state", "is_good"), [(-1, True), (0, True), (5, False)])
def test_the_file_of_timesyncd_tells_of_the_clock_before_the_kernel(tmp_path, monkeypatch, state, *, is_good):
    """-1: the kernel can't be asked here."""
    monkeypatch.setattr(clock, "_adjtimex", lambda: state)
    monkeypatch.setattr(clock, "_TIMESYNC", str(tmp_path / "timesync"))
    assert RealClock().is_synchronised() is is_good
    (tmp_path / "timesync").mkdir()
    assert not RealClock().is_synchronised()
    (tmp_path / "timesync/synchronized").touch()
    assert RealClock().is_synchronised()


async def test_slow_files_do_not_delay_the_answer(tmp_path, monkeypatch):
    write(tmp_path, FILES)
    slow = tmp_path / "proc/uptime"
    slow.unlink()
    os.mkfifo(slow)  # a reader waits for a writer
    monkeypatch.setattr(machine, "_PATIENCE_S", 0.01)
    async with serving() as daemon:
        node = MachineNode(daemon.bus, tmp_path, tmp_path)
        answers = await asyncio.gather(*(daemon.ask("GET", "/node/machine") for _ in range(3)))
        assert [answer.json["machine"] for answer in answers] == [None] * 3
        await asyncio.to_thread(
            slow.write_text, "1 1\n"
        )  # for one reader: however many ask, one thread reads
        await node.close()
