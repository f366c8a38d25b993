"""Checks of a Raspberry Pi, on folder trees as root sees them."""

import os
from pathlib import Path

import msgspec
import pytest

from growd.config import load
from growd.config.profiles import profile_path
from growd.host.machine import read_machine
from growd_machine.raspberry_pi.checks import check_pi
from growd_machine.raspberry_pi.files import PiFiles
from growd_machine.raspberry_pi.findings import PiScene
from growd_machine.raspberry_pi.model import model_named
from support.clock import ManualClock
from support.pi_tree import CMDLINE, CONFIG_TXT, KINDS, RELEASES, PiTree

FOOD_COMPUTER = profile_path("food-computer")
COUCHDB = ("couchdb.url=http://127.0.0.1:5985",)
DATA = Path("/var/lib/growd")
THROTTLED = "sys/devices/platform/soc/soc:firmware/get_throttled"
HEAT = "sys/class/thermal/thermal_zone0/temp"
CONTROLLERS = "sys/fs/cgroup/cgroup.controllers"
CONFIG = "boot/firmware/config.txt"
UNIT = "etc/systemd/system/growd.service"
WANTED = "etc/systemd/system/multi-user.target.wants/growd.service"
MHZ19 = """
[simulator]
enabled = false
[[sensor]]
name = "co2"
kind = "mhz19"
port = "/dev/serial0"
"""


class SetByTheNetwork(ManualClock):
    def __init__(self, *, is_set=True):
        super().__init__()
        self._is_set = is_set

    def is_synchronised(self):
        return self._is_set


def findings(tree, config=FOOD_COMPUTER, settings=COUCHDB, user="", *, is_set=True):
    machine = read_machine(tree.root / "var/lib/growd", SetByTheNetwork(is_set=is_set), tree.root)
    return check_pi(
        PiScene(
            files=PiFiles(tree.root),
            machine=machine,
            model=model_named(machine.model),
            config=load(config, settings),
            user=user,
            data=DATA,
        )
    )


def problems(tree, *arguments, **options):
    """State, subject and text of all that is not well."""
    return [
        (it.state, it.subject, it.text) for it in findings(tree, *arguments, **options) if it.state != "ok"
    ]


@pytest.fixture
def tree(tmp_path):
    return PiTree(tmp_path)


@pytest.fixture
def serial(tmp_path):
    """The configuration of a chamber with a serial sensor."""
    file = tmp_path / "growd.toml"
    file.write_text(MHZ19)
    return file


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", KINDS)
def test_all_is_well_on_each_model_that_is_set_up(tmp_path, name, release):
    tree = PiTree(tmp_path, name, release)
    tree.write(CONFIG, CONFIG_TXT.replace("audio=on", "audio=off"))
    found = findings(tree)
    assert problems(tree) == []
    text = {it.subject: it.text for it in found}
    assert text["model"] == f"{tree.kind.model}, revision {tree.kind.revision:x}"
    assert text["overlays"] == "vc4-kms-v3d"
    assert text["I2C bus 1"] == "50 kHz"
    debug = ", the debug connector" if name == "5" else ""
    assert text["serial0"] == f"it is {tree.kind.serial}{debug}; no console is on it"
    assert text["pins"] == "nothing else uses GPIO 12, 13, 18, 23, 24"
    assert text["memory"].endswith("511 MB of swap (zram)")
    assert ("no clock of its own" in text["time"]) is not tree.kind.has_rtc


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("etc/os-release", "ID=raspbian\nVERSION_ID=12\n", ("failure", "system", "32-bit system")),
        ("etc/os-release", "ID=debian\nVERSION_ID=11\n", ("failure", "system", "Debian 12 is the oldest")),
        ("proc/device-tree/model", "Raspberry Pi Zero W Rev 1.1", ("failure", "model", "does not support")),
        (THROTTLED, "50005", ("failure", "power", "now: under-voltage")),
        (THROTTLED, "50000", ("warning", "power", "since the start: under")),
        (THROTTLED, "8", ("warning", "power", "soft temperature limit")),
        (HEAT, "81000", ("failure", "temperature", "81 °C")),
        (HEAT, "72000", ("warning", "temperature", "72 °C")),
        (
            "proc/meminfo",
            "MemTotal: 900000 kB\nMemAvailable: 50000 kB\n",
            ("warning", "memory", "48 of 878 MB"),
        ),
        ("sys/block/mmcblk0/device/life_time", "0x03 0x09", ("warning", "card", "up to 90 %")),
        ("sys/block/mmcblk0/device/life_time", "0x0b 0x01", ("failure", "card", "up to 110 %")),
        (
            "dev/kmsg",
            "3,9,1,-;mmc0: error -110 whilst initialising SD card\n",
            ("failure", "card", "mmc0: error -110"),
        ),
        ("dev/kmsg", "3,9,1,-;I/O error, dev mmcblk0, sector 5\n", ("failure", "card", "1 errors in")),
        (
            "proc/self/mountinfo",
            "1 0 0:1 / / rw - tmpfs tmpfs rw\n",
            ("failure", "data folder", "in memory (tmpfs)"),
        ),
        (CONTROLLERS, "cpu pids\n", ("warning", "memory limits", "does not limit")),
        ("etc/systemd/system.conf.d/growd-watchdog.conf", "", ("warning", "watchdog", "does not feed")),
        ("etc/group", "i2c:x:1:\n", ("failure", "groups", "gpio, dialout of the service do not exist")),
        ("boot/firmware/cmdline.txt", "quiet", ("warning", "boot settings", "missing: cgroup_enable=memory")),
        (
            CONFIG,
            CONFIG_TXT.replace("=50000", "=400000"),
            ("warning", "boot settings", "missing: dtparam=i2c_arm_baudrate=50000"),
        ),
        ("proc/stat", "btime 1\n", ("warning", "boot settings", "changed since the machine started")),
    ],
)
def test_each_defect_is_found(tree, place, text, expected):
    tree.write(place, text)
    state, subject, words = expected
    (found,) = [it for it in findings(tree) if it.subject == subject and it.state == state]
    assert words in found.text
    assert found.remedy


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("dev/i2c-1", ("failure", "I2C bus 1", "there is no /dev/i2c-1")),
        (UNIT, ("warning", "service", "growd is not installed as a service")),
        (WANTED, ("warning", "service", "growd is installed, but does not start with the machine")),
        (THROTTLED, ("not checked", "power", "the firmware's state can't be read")),
        (HEAT, ("not checked", "temperature", "the machine has no sensor that can be read")),
        ("proc/meminfo", ("not checked", "memory", "/proc/meminfo can't be read")),
        ("dev/kmsg", ("not checked", "card", "the kernel's log can't be read")),
        (CONTROLLERS, ("not checked", "memory limits", "/sys/fs/cgroup can't be read")),
        ("sys/class/watchdog/watchdog0/identity", None),
    ],
)
def test_what_is_missing_is_not_said_to_be_well(tree, place, expected):
    tree.remove(place)
    assert problems(tree) == ([] if expected is None else [expected])


def test_a_missing_boot_partition_and_a_pi_without_a_clock_or_memory_are_found(tree, tmp_path):
    assert problems(tree, is_set=False)[0][:2] == ("failure", "time")
    assert problems(PiTree(tmp_path / "5", "5"), is_set=False)[0][:2] == ("warning", "time")
    small = PiTree(tmp_path / "zero2", "zero2")
    assert problems(small, settings=())[0][:2] == ("failure", "memory")  # of the embedded database
    tree.remove(CONFIG)
    (finding,) = [it for it in findings(tree) if it.subject == "boot settings"]
    assert (finding.state, finding.remedy) == ("failure", "sudo mount /boot/firmware")


@pytest.mark.parametrize("speed", [100_000, None])
def test_an_scd30_on_a_fast_bus_gets_the_remedy(tree, speed):
    place = "sys/bus/i2c/devices/i2c-1/of_node/clock-frequency"
    tree.remove(place) if speed is None else tree.cell(place, speed)
    ((state, subject, text),) = problems(tree)
    assert (state, subject) == ("warning", "I2C bus 1")
    assert "a sensor on it needs at most 50 kHz" in text


def test_a_bus_in_software_has_no_speed_and_is_well(tree, tmp_path):
    tree.write("dev/i2c-3", "")
    tree.write(CONFIG, CONFIG_TXT + "dtoverlay=i2c-gpio,bus=3,i2c_gpio_sda=5,i2c_gpio_scl=6\n")
    config = tmp_path / "growd.toml"
    config.write_text(FOOD_COMPUTER.read_text().replace('kind = "scd30"', 'kind = "scd30"\nbus = 3'))
    assert problems(tree, config) == []


@pytest.mark.parametrize(
    ("free_bytes", "state"),
    [(100 << 20, "failure"), (500 << 20, "warning"), (5 << 30, "ok"), (None, "not checked")],
)
def test_little_free_space_is_found(tree, free_bytes, state):
    machine = read_machine(tree.root, SetByTheNetwork(), tree.root)
    machine = msgspec.structs.replace(machine, disk_free_bytes=free_bytes)
    scene = PiScene(PiFiles(tree.root), machine, model_named(machine.model), load(FOOD_COMPUTER), "", DATA)
    assert [it.state for it in check_pi(scene) if it.subject == "disk"] == [state]


@pytest.mark.parametrize("by_offset", [False, True])
def test_users_of_the_pins_are_named_and_growd_is_not(tree, by_offset):
    tree.pins({23: "onewire@17", 24: "growd valve", 12: "", 5: "button"}, by_offset=by_offset)
    assert problems(tree) == [("failure", "GPIO 23", "onewire@17 uses the pin of valve")]


def test_a_device_on_a_pin_is_named_and_hardware_pwm_may_have_it(tree, tmp_path):
    tree.multiplexed({18: "fe203000.i2s", 12: "fe20c000.pwm"})
    assert ("failure", "GPIO 12", "fe20c000.pwm uses the pin of light white") in problems(tree)
    assert ("failure", "GPIO 18", "fe203000.i2s uses the pin of light blue") in problems(tree)
    config = tmp_path / "growd.toml"
    config.write_text(FOOD_COMPUTER.read_text().replace('kind = "pwm"', 'kind = "hardware_pwm"'))
    assert [subject for _, subject, _ in problems(tree, config)] == ["boot settings", "GPIO 18"]


def test_root_is_not_told_to_become_root(tree):
    for place in ("sys/kernel/debug/gpio", "dev/kmsg"):
        tree.remove(place)
    remedies = {it.subject: it.remedy for it in findings(tree) if it.state == "not checked"}
    assert remedies == {"pins": "sudo mount -t debugfs none /sys/kernel/debug", "card": ""}
    remedies = {it.subject: it.remedy for it in findings(tree, user="pi") if it.state == "not checked"}
    assert remedies["pins"] == remedies["card"] == "sudo growd check --pi"


def test_a_card_without_a_system_is_not_called_well(tree, said):
    tree.remove("etc/os-release")
    tree.remove("var/lib/growd/outputs.json")
    (tree.root / "var/lib/growd").rmdir()
    found = {it.subject: it for it in findings(tree)}
    assert found["system"].state == "not checked"
    said(found["data folder"].text)


@pytest.mark.parametrize(
    ("line", "pin"),
    [
        ("dtoverlay=w1-gpio,gpiopin=23", 23),
        ("dtoverlay=gpio-fan", 12),
        ("dtoverlay=i2c-gpio,bus=3", 24),
        ("dtoverlay=hifiberry-dac", 18),
        ("dtoverlay=mcp2515-can0,oscillator=8000000,interrupt=13", 13),
        ("dtparam=spi=on,i2s=on", 18),
    ],
)
def test_settings_that_take_a_pin_are_found_without_root(tree, line, pin):
    tree.write(CONFIG, CONFIG_TXT + line)
    tree.remove("sys/kernel/debug/gpio")
    found = findings(tree)
    (text,) = [it.text for it in found if it.subject == f"GPIO {pin}"]
    assert text.startswith(f"{line} uses the pin of ")
    assert [it.state for it in found if it.subject == "pins"] == ["not checked"]


def test_other_programs_on_a_bus_are_named_and_a_user_is_shown_what_is_missing(tree):
    assert problems(tree, user="pi") == [
        ("not checked", "programs", "whether programs of other users use the buses")
    ]
    remedies = {it.subject: it.remedy for it in findings(tree, user="ana")}
    assert remedies["groups"] == "sudo usermod -aG i2c,gpio,dialout ana, then log in again"
    tree.program(40, "python3 -I /opt/growd/current/bin/growd run", "/dev/i2c-1")
    tree.program(41, "python3 /home/pi/lcd.py", "/dev/null", "/dev/i2c-1")
    assert problems(tree) == [("failure", "/dev/i2c-1", "python3 /home/pi/lcd.py has it open")]


def with_uart(tree, line="enable_uart=1"):
    tree.write(CONFIG, f"{line}\ndtparam=watchdog=on\n")


def test_a_1_wire_bus_is_missed_by_its_sensors(tree, tmp_path, said):
    file = tmp_path / "growd.toml"
    file.write_text('[simulator]\nenabled = false\n[[sensor]]\nname = "tank"\nkind = "ds18b20"\n')
    assert ("failure", "1-wire", "there is no 1-wire bus") in problems(tree, file, ())
    tree.write("sys/bus/w1/devices/w1_bus_master1/name", "w1_bus_master1")
    said({it.subject: it.text for it in findings(tree, file, ())}["1-wire"])


def has_console(tree):
    tree.write("proc/cmdline", f"console=ttyS0,115200 {CMDLINE}")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, []),
        (has_console, [("failure", "/dev/serial0", "it is ttyS0, with the kernel's console on it")]),
        (lambda tree: tree.remove("dev/serial0"), [("failure", "/dev/serial0", "there is no such port")]),
        (
            lambda tree: tree.program(50, "gpsd -n", "/dev/ttyS0"),
            [("failure", "/dev/ttyS0", "gpsd -n has it open")],
        ),
    ],
    ids=["well", "console", "missing", "program"],
)
def test_the_serial_port_of_a_sensor(tree, serial, change, expected):
    with_uart(tree)
    change(tree)
    assert problems(tree, serial) == expected


def test_a_login_on_the_port_of_a_sensor_is_a_failure(tree, serial, said):
    with_uart(tree)
    tree.link("etc/systemd/system/getty.target.wants/serial-getty@ttyS0.service", "/dev/null")
    (finding,) = [it for it in findings(tree, serial) if it.state == "failure"]
    said(finding.text)
    assert finding.remedy == "sudo systemctl disable --now serial-getty@ttyS0"


def test_serial0_of_a_pi_5_is_the_debug_connector(tmp_path, serial, said):
    tree = PiTree(tmp_path / "5", "5")
    with_uart(tree, "dtparam=uart0=on")
    ((state, subject, text),) = problems(tree, serial)
    assert (state, subject) == ("failure", "/dev/serial0")
    said(text)


def test_another_machine_is_checked_where_that_applies(tree):
    tree.remove("proc/device-tree/model")
    subjects = {it.subject for it in findings(tree)}
    assert subjects >= {"system", "time", "memory", "disk", "data folder", "I2C bus 1", "pins"}
    assert not subjects & {"model", "power", "boot settings", "watchdog"}


def test_the_kernels_log_of_this_machine_ends(tmp_path):
    """A real /dev/kmsg gives one record at a time and never ends by itself."""
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("this user may not read the kernel's log")
    assert PiFiles(Path("/")).kernel_log() is not None
