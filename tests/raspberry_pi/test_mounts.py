"""Whether the data folder is in memory, and how an upgrade ended."""

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from growd.bus import Bus
from growd.config import Config
from growd.runtime.clock import RealClock
from growd_machine.data_folder import leave_note, memory_below, opened
from support.mount_namespace import mounted, on_read_only_root

DATA = Path("/var/lib/growd")
DISK = "22 1 179:2 / / rw,noatime - ext4 /dev/mmcblk0p2 rw\n"
TMPFS = "30 22 0:30 / /var rw - tmpfs tmpfs rw\n"
# as overlayroot of Debian 12 leaves the mounts
OVERLAY = (
    "22 1 0:20 / / rw,relatime - overlay overlayroot "
    "rw,lowerdir=/media/root-ro,upperdir=/media/root-rw/overlay,workdir=/media/root-rw/overlay-workdir/_\n"
    "23 22 179:2 / /media/root-ro ro,noatime - ext4 /dev/mmcblk0p2 ro\n"
    "24 22 0:19 / /media/root-rw rw,relatime - tmpfs tmpfs-root rw\n"
)
CONTAINER = "22 1 0:20 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/docker/1/diff,workdir=/w\n"
SEES_ITSELF = """
import pathlib, sys
from growd_machine.data_folder import memory_below
print(memory_below(pathlib.Path(sys.argv[1])))
"""


def below(root, mounts, command_line="quiet"):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    (root / "proc/cmdline").write_text(command_line)
    return memory_below(DATA, root)


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        (DISK, None),
        (DISK + TMPFS, "tmpfs"),
        (DISK + "30 22 0:30 / /var/li rw - tmpfs tmpfs rw\n", None),
        (DISK + TMPFS + "31 30 8:1 / /var/lib/growd rw - ext4 /dev/sda1 rw\n", None),
        (DISK + "29 22 8:1 / /var rw - ext4 /dev/sda1 rw\n" + TMPFS, "tmpfs"),
        (DISK + "30 22 0:30 / /var/lib/gr\\040owd rw - tmpfs tmpfs rw\n", None),
        (OVERLAY, "an overlay with its changes in tmpfs"),
        (OVERLAY + "30 22 179:3 / /var/lib/growd rw,noatime - ext4 /dev/mmcblk0p3 rw\n", None),
        (OVERLAY.replace("upperdir", "nothing"), None),
        (CONTAINER, None),
        ("", None),
        ("damaged\n", None),
    ],
)
def test_the_mounts_say_whether_a_folder_is_in_memory(tmp_path, mounts, expected):
    assert below(tmp_path, mounts) == expected


@pytest.mark.parametrize(
    "words", ["boot=overlay quiet", "overlayroot=tmpfs", "a overlayroot=tmpfs:recurse=0"]
)
def test_the_command_line_decides_where_the_upper_layer_is_hidden(tmp_path, words):
    hidden = CONTAINER.replace("/var/lib/docker/1/diff", "/upper/data")
    assert below(tmp_path, hidden, words) == "an overlay with its changes in memory"


async def test_a_failed_upgrade_is_reported_by_the_next_start_alone(tmp_path):
    await asyncio.to_thread(leave_note, tmp_path, "the upgrade failed")
    for expected in (["upgrade_failed"], []):
        around = SimpleNamespace(bus=Bus(RealClock()), data=tmp_path, present=Config)
        async with opened(around):
            problems = around.bus.find_node("machine/data_folder").information()["problems"]
            assert [each["code"] for each in problems] == expected


def test_a_real_tmpfs_is_in_memory_and_a_machine_without_a_list_of_mounts_has_none(tmp_path):
    assert memory_below(DATA, tmp_path) is None
    script = 'mount -t tmpfs none "$1"; exec "$2" -c "$3" "$1"/data'
    assert mounted(script, str(tmp_path), sys.executable, SEES_ITSELF) == "tmpfs\n"


def test_a_real_overlay_is_in_memory_and_a_disk_in_it_is_not(tmp_path):
    python = (sys.executable, "-c", SEES_ITSELF, str(tmp_path / "data"))
    assert output_of(*on_read_only_root(), *python) == "an overlay with its changes in tmpfs\n"
    assert output_of(*on_read_only_root(str(tmp_path)), *python) == f"{memory_below(tmp_path)}\n"


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
