"""The files of a Raspberry Pi that show its state, as a folder tree: models 3B+, 4, 5 and Zero 2 W."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PiKind:
    model: str
    revision: int
    chip: str
    controller: str
    serial: str
    memory_kib: int
    has_rtc: bool = False


KINDS = {
    "3": PiKind(
        "Raspberry Pi 3 Model B Plus Rev 1.3", 0xA020D3, "bcm2835", "3f200000.gpio", "ttyS0", 927_000
    ),
    "4": PiKind("Raspberry Pi 4 Model B Rev 1.4", 0xB03114, "bcm2711", "fe200000.gpio", "ttyS0", 1_849_000),
    "5": PiKind(
        "Raspberry Pi 5 Model B Rev 1.0", 0xC04170, "rp1", "1f000d0000.gpio", "ttyAMA10", 4_045_000, True
    ),
    "zero2": PiKind("Raspberry Pi Zero 2 W Rev 1.0", 0x902120, "bcm2835", "3f200000.gpio", "ttyS0", 426_000),
}
RELEASES = {
    "bookworm": (
        'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n',
        "6.12.47+rpt-rpi-v8",
    ),
    "trixie": (
        'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_ID="13"\n',
        "6.12.62+rpt-rpi-2712",
    ),
}
CONFIG_TXT = """\
dtparam=i2c_arm=on
dtparam=i2c_arm_baudrate=50000
dtparam=audio=on
dtoverlay=vc4-kms-v3d
[cm5]
dtoverlay=dwc2,dr_mode=host
[all]
gpio=23,24=op,dh
gpio=12,13,18=op,dl
dtparam=watchdog=on
"""
CMDLINE = "console=tty1 root=PARTUUID=4d8097e2-02 rootfstype=ext4 rootwait cgroup_enable=memory"
BASE = 512


class PiTree:
    """A Pi that is set up for the profile food-computer, as root sees it while growd does not run."""

    def __init__(self, root, name="4", release="bookworm"):
        self.root = root
        self.kind = KINDS[name]
        os_release, kernel = RELEASES[release]
        self.write("proc/device-tree/model", f"{self.kind.model}\0")
        self.cell("proc/device-tree/system/linux,revision", self.kind.revision)
        self.write("etc/os-release", os_release)
        self.write("proc/sys/kernel/osrelease", f"{kernel}\n")
        self.write(
            "proc/meminfo",
            f"MemTotal: {self.kind.memory_kib} kB\nMemAvailable: 300000 kB\nSwapTotal: 524284 kB\n",
        )
        self.write("proc/stat", "btime 4000000000\n")
        self.write("proc/cmdline", f"cgroup_disable=memory {CMDLINE}\n")
        self.write("proc/self/mountinfo", "22 1 179:2 / / rw,noatime - ext4 /dev/mmcblk0p2 rw\n")
        self.write("boot/firmware/config.txt", CONFIG_TXT)
        self.write("boot/firmware/cmdline.txt", f"{CMDLINE}\n")
        self.write("sys/devices/platform/soc/soc:firmware/get_throttled", "0\n")
        self.write("sys/class/thermal/thermal_zone0/temp", "48312\n")
        self.write("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n")
        self.write("sys/class/watchdog/watchdog0/identity", "Broadcom BCM2835 Watchdog timer\n")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        self.write("sys/fs/ext4/mmcblk0p2/lifetime_write_kbytes", "12345678\n")
        self.write("sys/block/zram0/disksize", "0\n")
        self.write("dev/i2c-1", "")
        self.cell("sys/bus/i2c/devices/i2c-1/of_node/clock-frequency", 50_000)
        self.write("dev/kmsg", "6,1,100,-;mmc0: new high speed SDHC card at address aaaa\n")
        self.write(f"dev/{self.kind.serial}", "")
        self.link("dev/serial0", self.kind.serial)
        self.pins({})
        self.multiplexed({2: "i2c", 3: "i2c"})
        self.write("etc/group", "root:x:0:\ni2c:x:994:pi\ngpio:x:993:pi\ndialout:x:20:pi\ngrowd:x:992:\n")
        self.write("etc/passwd", "root:x:0:0::/root:/bin/sh\ngrowd:x:990:992::/:/usr/sbin/nologin\n")
        self.write("etc/systemd/system/growd.service", "")
        self.link("etc/systemd/system/multi-user.target.wants/growd.service", "../growd.service")
        self.write("etc/systemd/system.conf.d/growd-watchdog.conf", "[Manager]\nRuntimeWatchdogSec=15s\n")
        self.write("var/lib/growd/outputs.json", "")
        if self.kind.has_rtc:
            self.write("sys/class/rtc/rtc0/name", "rpi-rtc\n")

    def write(self, place, text):
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def cell(self, place, number):
        self.write(place, "")
        (self.root / place).write_bytes(number.to_bytes(4, "big"))

    def link(self, place, target):
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def remove(self, place):
        (self.root / place).unlink()

    def pins(self, users, *, by_offset=False):
        """Lines that programs or the kernel use, as debugfs lists them (drivers/gpio/gpiolib.c)."""
        base = 0 if by_offset else BASE
        count = "54 GPIOs" if by_offset else f"GPIOs {BASE}-{BASE + 53}"
        lines = "".join(
            f" gpio-{base + pin:<4} (GPIO{pin:<15} |{user:<20}) out hi\n" for pin, user in users.items()
        )
        self.write(
            "sys/kernel/debug/gpio",
            f"gpiochip0: {count}, {self.kind.controller}, pinctrl-{self.kind.chip}:\n{lines}\n"
            "gpiochip1: GPIOs 566-573, parent: platform/soc:firmware:gpio, raspberrypi-exp-gpio:\n"
            f" gpio-{base + 23} (BT_ON |shutdown) out hi\n",
        )

    def multiplexed(self, owners):
        """Pins of devices, as debugfs lists them (drivers/pinctrl/pinmux.c)."""
        lines = "".join(
            f"pin {pin} (gpio{pin}): {owner} (GPIO UNCLAIMED) function alt0 group gpio{pin}\n"
            if (owner := owners.get(pin))
            else f"pin {pin} (gpio{pin}): (MUX UNCLAIMED) (GPIO UNCLAIMED)\n"
            for pin in range(28)
        )
        folder = f"sys/kernel/debug/pinctrl/{self.kind.controller}-pinctrl-{self.kind.chip}"
        self.write(
            f"{folder}/pinmux-pins",
            f"Pinmux settings per pin\nFormat: pin (name): mux_owner gpio_owner\n{lines}",
        )

    def program(self, number, command, *devices):
        """A process with open devices."""
        self.write(f"proc/{number}/cmdline", command.replace(" ", "\0") + "\0")
        for descriptor, device in enumerate(devices, 3):
            self.link(f"proc/{number}/fd/{descriptor}", device)
