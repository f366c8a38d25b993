"""tools/image on a small card image, whose dpkg and growd are shell scripts."""

import hashlib
import json
import lzma
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.checkout import ROOT

PROGRAMS = ("dpkg-deb", "sfdisk", "mformat", "mke2fs", "debugfs", "xz")

pytestmark = [
    pytest.mark.install,
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/loop-control").exists(),
        reason="mounting images needs root and loop devices",
    ),
    pytest.mark.skipif(
        not all(map(shutil.which, PROGRAMS)), reason=f"one of these is missing: {', '.join(PROGRAMS)}"
    ),
]

MB = 2**20
BOOT, SYSTEM = 1 * MB, 9 * MB  # where the partitions begin
STANDINS = {
    # Reads a file and needs /dev/null, as the real one does.
    "dpkg": 'read first </growd.deb && echo "$1 $2 $first" >/installed 2>/dev/null',
    "growd": 'echo "$@" >>/boot/firmware/config.txt && echo before >/boot/firmware/config.txt.growd-before',
    "systemctl": 'echo "$@" >/systemctl',
}


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def make_root(root):
    """A system with a shell and the stand-ins."""
    for folder in ("bin", "dev", "proc", "etc", "usr/share/systemd"):
        (root / folder).mkdir(parents=True)
    for word in ("/bin/sh", *run("ldd", "/bin/sh").split()):
        if word.startswith("/"):
            (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, root / word[1:])
    for name, text in STANDINS.items():
        (root / "bin" / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (root / "bin" / name).chmod(0o755)
    (root / "usr/share/systemd/tmp.mount").touch()


def make_image(folder, *, boot_files):
    """An image like that of Raspberry Pi OS: a vfat partition, and a full ext4 partition behind it."""
    make_root(folder / "root")
    image = folder / "small.img"
    with image.open("wb") as file:
        file.truncate(SYSTEM + 16 * MB)
    table = "label: dos\nlabel-id: 0x12345678\nsize=8M, type=c\ntype=83\n"
    run("sfdisk", "--quiet", image, input=table)
    run("mformat", "-T", str((SYSTEM - BOOT) // 512), "-i", f"{image}@@{BOOT}", "::")
    for name, text in boot_files.items():
        run("mcopy", "-i", f"{image}@@{BOOT}", "-", f"::{name}", input=text)
    run("mke2fs", "-q", "-t", "ext4", "-d", folder / "root", "-E", f"offset={SYSTEM}", image, "16m")
    run("xz", "-1", image)
    return folder / "small.img.xz"


@pytest.fixture
def package(tmp_path):
    tree = tmp_path / "tree/DEBIAN"
    tree.mkdir(parents=True)
    (tree / "control").write_text(
        "Package: growd\nVersion: 1.2\nArchitecture: all\nMaintainer: nobody\nDescription: none\n"
    )
    (tmp_path / "output").mkdir()
    package = tmp_path / "output/growd_1.2_all.deb"
    run("dpkg-deb", "--build", tree.parent, package)
    return package


def make(package, *base):
    return subprocess.run(
        [ROOT / "tools/image", package, *base],
        env={**os.environ, "TMPDIR": str(package.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("user_data", "form"), [({}, "systemd"), ({"user-data": "#cloud-config\n"}, "cloudinit-rpi")]
)
def test_growd_is_added_to_an_image(package, tmp_path, user_data, form):
    files = {"config.txt": "arm_64bit=1\n", "cmdline.txt": "rw\n", "kernel8.img": "kernel", **user_data}
    done = make(package, make_image(tmp_path, boot_files=files))
    assert done.returncode == 0, done.stderr

    compressed = package.parent / "growd-1.2-small.img.xz"
    assert done.stdout == f"{compressed}\n"
    content = lzma.decompress(compressed.read_bytes())
    image = tmp_path / "made.img"
    image.write_bytes(content)

    def boot_file(name):
        return run("mtype", "-i", f"{image}@@{BOOT}", f"::{name}")

    def system_file(name):
        return run("debugfs", "-R", f"cat {name}", f"{image}?offset={SYSTEM}")

    assert boot_file("config.txt") == "arm_64bit=1\nsetup-pi --model 4 --write --yes\n"
    assert (boot_file("config.txt.growd-before"), boot_file("kernel8.img")) == ("before\n", "kernel")
    assert system_file("/installed").startswith("--install /growd.deb !<arch>")
    assert system_file("/systemctl") == "enable tmp.mount\n"
    assert "SystemMaxUse=64M" in system_file("/etc/systemd/journald.conf.d/90-growd.conf")
    assert system_file("/growd.deb") == ""
    table = json.loads(run("sfdisk", "--json", image))["partitiontable"]
    assert table["id"] == "0x12345678"
    assert table["partitions"][1]["size"] * 512 == (16 + 512) * MB
    blocks = run("dumpe2fs", "-h", f"{image}?offset={SYSTEM}")
    assert f"Block count:              {(16 + 512) * 1024}" in blocks

    (entry,) = json.loads((package.parent / "growd-1.2-small.json").read_text())["os_list"]
    assert entry["url"] == compressed.as_uri()
    assert (entry["extract_size"], entry["image_download_size"]) == (len(content), compressed.stat().st_size)
    assert entry["extract_sha256"] == hashlib.sha256(content).hexdigest()
    assert entry["image_download_sha256"] == hashlib.sha256(compressed.read_bytes()).hexdigest()
    assert entry["init_format"] == form
    assert list(tmp_path.glob("growd-image.*")) == []


def test_a_failed_installation_leaves_nothing(package, tmp_path, monkeypatch):
    monkeypatch.setitem(STANDINS, "dpkg", "exit 1")
    done = make(package, make_image(tmp_path, boot_files={"config.txt": "", "cmdline.txt": ""}))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "tools/image: growd could not be installed"
    assert list(package.parent.iterdir()) == [package]
    assert list(tmp_path.glob("growd-image.*")) == []
    assert str(tmp_path) not in run("losetup", "--list")


@pytest.mark.parametrize("base", [(), ("--help",), ("--plain-debian",), ("one.img", "two.img")])
def test_wrong_arguments_show_the_usage(package, base):
    done = make(package, *base)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Makes an SD card image")
