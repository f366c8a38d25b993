"""Checks of the machine itself: model, system, time, power, heat, memory and the card."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from growd_machine.raspberry_pi.findings import failed, unchecked, warned, well

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_machine.raspberry_pi.findings import PiFinding, PiScene

_OLDEST_DEBIAN: Final = 12
_OLDEST_PYTHON: Final = (3, 11)
_HOT_DEGC: Final = 80.0
"""The processor slows down from here (Raspberry Pi documentation, "Frequency management")."""

_WARM_DEGC: Final = 70.0
_MIB: Final = 1 << 20
_LOW_MEMORY: Final = 100 * _MIB
_EMBEDDED_NEEDS: Final = 800 * _MIB  # a Pi with 1 GB shows somewhat less
_LOW_DISK, _NO_DISK = 1024 * _MIB, 200 * _MIB
_WORN, _DEAD = 8, 11
"""eMMC: life time in steps of 10 %; 11 is beyond the estimate (JEDEC JESD84-B51, DEVICE_LIFE_TIME_EST)."""

_CARD_ERROR: Final = re.compile(
    r"mmc\d+: (?=.*(?:error|timeout|timed out|timeout waiting))|I/O error, dev mmcblk\d|EXT4-fs error",
    re.IGNORECASE,
)


def machine_findings(scene: PiScene) -> Iterator[PiFinding]:
    """Everything that does not depend on the chamber."""
    yield from _model(scene)
    yield from _system(scene)
    yield from _time(scene)
    if scene.model is not None:
        yield from _power(scene)
    yield from _heat(scene)
    yield from _memory(scene)
    yield from _disk(scene)
    yield from _card(scene)


def _model(scene: PiScene) -> Iterator[PiFinding]:
    name = scene.machine.model
    if scene.model is None:
        if name is not None and name.startswith("Raspberry Pi"):
            yield failed(
                "model", f"growd does not support a {name}", "use a Raspberry Pi 3, 4, 5 or Zero 2 W"
            )
        return
    revision = scene.files.cell("proc/device-tree/system/linux,revision")
    shown = "" if revision is None else f", revision {revision:x}"
    yield well("model", f"{name}{shown}")


def _system(scene: PiScene) -> Iterator[PiFinding]:
    release = dict(
        line.partition("=")[::2] for line in (scene.files.text("etc/os-release") or "").splitlines()
    )
    kind, version = (release.get(name, "").strip("\"'") for name in ("ID", "VERSION_ID"))
    kernel = scene.files.text("proc/sys/kernel/osrelease")
    text = f"{scene.machine.system or 'unknown'}, Linux {kernel or 'unknown'}"
    new = "write a new card with Raspberry Pi OS Lite (64-bit)"
    if kind == "raspbian":
        yield failed("system", f"{text}: a 32-bit system, for which some packages have no build", new)
    elif kind == "debian" and version.isdecimal() and int(version) < _OLDEST_DEBIAN:
        yield failed("system", f"{text}: Debian 12 is the oldest that growd runs on", new)
    elif release and kernel:
        yield well("system", text)
    else:
        yield unchecked("system", text)
    python = scene.machine.python_version
    if tuple(map(int, re.findall(r"\d+", python)[:2])) < _OLDEST_PYTHON:
        yield failed("python", f"Python {python}: growd needs 3.11", new)
    else:
        yield well("python", f"Python {python}")


def _time(scene: PiScene) -> Iterator[PiFinding]:
    has_rtc = bool(scene.files.found("sys/class/rtc/rtc*"))
    clock = "a clock with a battery (RTC)" if has_rtc else "no clock of its own (RTC)"
    if scene.machine.clock_synchronised:
        after = "" if has_rtc else ": after a power cut its time is wrong until the network answers"
        yield well("time", f"set by the network; {clock}{after}")
    elif has_rtc:
        yield warned("time", f"not set by the network; {clock}", "timedatectl set-ntp true")
    else:
        yield failed(
            "time",
            f"not set by the network; {clock}: points may carry a wrong time",
            "sudo timedatectl set-ntp true, and connect the network; or add an RTC",
        )


def _power(scene: PiScene) -> Iterator[PiFinding]:
    now, earlier = scene.machine.troubles, scene.machine.earlier_troubles
    remedy = "use the official power supply and a short, thick cable"
    if now is None:
        yield unchecked("power", "the firmware's state can't be read", "vcgencmd get_throttled")
    elif "under-voltage" in now:
        yield failed("power", f"now: {', '.join(now)}", remedy)
    elif now:
        yield warned("power", f"now: {', '.join(now)}", "give the Pi air or a heat sink")
    elif earlier:
        remedy = remedy if "under-voltage" in earlier else "give the Pi air or a heat sink"
        yield warned("power", f"since the start: {', '.join(earlier)}", remedy)
    else:
        yield well("power", "no under-voltage or throttling")


def _heat(scene: PiScene) -> Iterator[PiFinding]:
    if not scene.machine.temperatures_degc:
        yield unchecked("temperature", "the machine has no sensor that can be read")
        return
    highest = max(scene.machine.temperatures_degc.values())
    text = f"{highest:.0f} °C"
    remedy = "give the Pi air or a heat sink"
    if highest >= _HOT_DEGC:
        yield failed("temperature", f"{text}: the processor slows down from {_HOT_DEGC:g} °C", remedy)
    elif highest >= _WARM_DEGC:
        yield warned("temperature", text, remedy)
    else:
        yield well("temperature", text)


def _memory(scene: PiScene) -> Iterator[PiFinding]:
    found = re.findall(r"^(\w+):\s+(\d+) kB", scene.files.text("proc/meminfo") or "", re.MULTILINE)
    sizes = {name: int(kib) << 10 for name, kib in found}
    if "MemAvailable" not in sizes or "MemTotal" not in sizes:
        yield unchecked("memory", "/proc/meminfo can't be read")
        return
    total, free = sizes["MemTotal"], sizes["MemAvailable"]
    zram = " (zram)" if scene.files.found("sys/block/zram*") else ""
    swap = f"{sizes.get('SwapTotal', 0) // _MIB} MB of swap{zram}" if sizes.get("SwapTotal") else "no swap"
    text = f"{free // _MIB} of {total // _MIB} MB are free; {swap}"
    if not scene.config.couchdb.url and total < _EMBEDDED_NEEDS:
        yield failed(
            "memory",
            f"{text}: the embedded database needs a Pi with 1 GB",
            "set [couchdb] url to a CouchDB on another machine",
        )
    elif free < _LOW_MEMORY:
        yield warned("memory", text, "stop other programs: systemctl list-units --type=service")
    else:
        yield well("memory", text)


def _disk(scene: PiScene) -> Iterator[PiFinding]:
    free = scene.machine.disk_free_bytes
    if free is None:
        yield unchecked("disk", f"{scene.data} does not exist yet")
        return
    text = f"{free // _MIB} MB are free for {scene.data}"
    remedy = "sudo apt clean; sudo journalctl --vacuum-size=50M; docs/store.md has the retention of points"
    if free < _NO_DISK:
        yield failed("disk", text, remedy)
    elif free < _LOW_DISK:
        yield warned("disk", text, remedy)
    else:
        yield well("disk", text)


def _card(scene: PiScene) -> Iterator[PiFinding]:
    """The life of eMMC, what an ext4 file system has written, and errors in the kernel's log."""
    files = scene.files
    for place in files.found("sys/block/mmcblk*/device/life_time"):
        used = max((int(step, 16) for step in re.findall(r"0x[0-9a-f]+", files.text(place) or "")), default=0)
        text = f"the eMMC has used up to {used * 10} % of its life"
        if used > _WORN:
            remedy = "back up the data folder (docs/store.md), and replace the memory"
            yield (failed if used >= _DEAD else warned)("card", text, remedy)
        elif used:
            yield well("card", text)
    for place in files.found("sys/fs/ext4/mmcblk*/lifetime_write_kbytes"):
        gigabytes = (files.number(place) or 0) * 1024 / 1e9
        yield well("card", f"{place.split('/')[-2]} has written {gigabytes:.0f} GB since it was made")
    log = files.kernel_log()
    if log is None:
        remedy = "sudo growd check --pi" if scene.user else ""
        yield unchecked("card", "the kernel's log can't be read", remedy)
        return
    errors = [line for line in log if _CARD_ERROR.search(line)]
    if errors:
        last = errors[-1].partition(";")[2] or errors[-1]
        remedy = "back up the data folder, and replace the card: docs/store.md"
        yield failed("card", f"{len(errors)} errors in the kernel's log, the last: {last}", remedy)
    else:
        yield well("card", "no errors in the kernel's log")
