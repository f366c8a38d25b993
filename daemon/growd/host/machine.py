"""The machine that growd runs on: temperatures, disk, load, uptime and versions.

They are read from files of the system, in a thread and on demand.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd import __version__
from growd.runtime.sentence import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.bus import Bus
    from growd.runtime.clock import Clock

FRESH_S: Final = 10.0
"""The machine is read at most this often."""

_PATIENCE_S: Final = 2.0  # time limit for reading; a failing SD card may block
_MOST_ZONES: Final = 16
_THROTTLED: Final = (
    "sys/devices/platform/soc/soc:firmware/get_throttled",
    "sys/bus/platform/drivers/raspberrypi-firmware/*/get_throttled",
)
"""Where the kernel of Raspberry Pi OS reports the throttling state; the path depends on the chip."""

TROUBLES: Final = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "soft temperature limit"}
"""Its bits (https://www.raspberrypi.com/documentation/computers/os.html#get_throttled): now, and 16 higher
since the machine started."""

_BEFORE: Final = 16
_STARTED: Final = time.monotonic()  # of this program, which imports this module at its start


class MachineStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of the machine and of the program on it.

    A value that this machine does not provide is None, and omitted in JSON. `temperatures_degc` has the names
    of sensors as keys. `troubles` are the current power and heat problems that the firmware of a Raspberry Pi
    reports, `earlier_troubles` those since it started. The disk is that of the data folder.
    """

    growd_version: str
    python_version: str
    growd_uptime_s: float
    clock_synchronised: bool
    clock_simulated: bool = False
    model: str | None = None
    system: str | None = None
    kernel: str | None = None
    uptime_s: float | None = None
    cores: int | None = None
    load_1min: float | None = None
    load_5min: float | None = None
    load_15min: float | None = None
    disk_bytes: int | None = None
    disk_free_bytes: int | None = None
    temperatures_degc: dict[str, float] = {}
    troubles: list[str] | None = None
    earlier_troubles: list[str] | None = None


class MachineNode:
    """The node `machine`, with a `MachineStatus`. `data` is the data folder; files are read below `root`."""

    def __init__(self, bus: Bus, data: Path, root: Path = Path("/")) -> None:
        self._clock = bus.clock
        self._data = data
        self._root = root
        self._status: MachineStatus | None = None
        self._read_at = 0.0
        self._reading: asyncio.Task[None] | None = None
        self.node = bus.node("machine")
        self.node.describe("machine", self._information, prepare=self.look)

    async def look(self) -> None:
        """Read the machine unless it was read in the last `FRESH_S`; if it takes long, keep the old state."""
        if self._status is not None and time.monotonic() - self._read_at < FRESH_S:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="machine: read")
        await asyncio.wait([self._reading], timeout=_PATIENCE_S)

    async def close(self) -> None:
        """Stop a reading that is in progress."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        self.node.close()

    async def _read(self) -> None:
        self._status = await asyncio.to_thread(read_machine, self._data, self._clock, self._root)
        self._read_at = time.monotonic()

    def _information(self) -> dict[str, Any] | None:
        if self._status is None:
            return None
        found: dict[str, Any] = plain(self._status)
        return found | {"growd_uptime_s": time.monotonic() - _STARTED}


def read_machine(data: Path, clock: Clock, root: Path = Path("/")) -> MachineStatus:
    """The state of the machine now. Blocking."""
    now, earlier = _read_troubles(root)
    total, free = _read_disk(data)
    load = os.getloadavg()
    return MachineStatus(
        growd_version=__version__,
        python_version=platform.python_version(),
        growd_uptime_s=time.monotonic() - _STARTED,
        clock_synchronised=clock.is_synchronised(),
        clock_simulated=hasattr(clock, "reached"),  # the speed of a `SimulatedClock`
        model=_text(root / "proc/device-tree/model"),
        system=_read_system(root),
        kernel=platform.release(),
        uptime_s=_read_uptime(root),
        cores=os.cpu_count(),
        load_1min=load[0],
        load_5min=load[1],
        load_15min=load[2],
        disk_bytes=total,
        disk_free_bytes=free,
        temperatures_degc=dict(_read_temperatures(root)),
        troubles=now,
        earlier_troubles=earlier,
    )


def model_of_this_machine() -> str | None:
    """Such as "Raspberry Pi 4 Model B Rev 1.4"; None if unknown. Blocking."""
    return _text(Path("/proc/device-tree/model"))


def _text(path: Path) -> str | None:
    """The content of a file of the kernel without its terminator; None if it can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip(" \n\0")
    except OSError:
        return None


def _number(path: Path, base: int = 10) -> int | None:
    try:
        return int(_text(path) or "", base)
    except ValueError:
        return None


def _read_system(root: Path) -> str | None:
    """The name of the operating system (os-release(5))."""
    for line in (_text(root / "etc/os-release") or "").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip("\"'")
    return None


def _read_uptime(root: Path) -> float | None:
    """Seconds since the machine started (proc(5))."""
    try:
        return float((_text(root / "proc/uptime") or "").split()[0])
    except (IndexError, ValueError):
        return None


def _read_disk(data: Path) -> tuple[int | None, int | None]:
    """Size of the file system and free space in bytes."""
    try:
        usage = shutil.disk_usage(data)
    except OSError:
        return None, None
    return usage.total, usage.free


def _read_temperatures(root: Path) -> Iterator[tuple[str, float]]:
    """Name and temperature of each thermal zone (in m°C, the kernel's sysfs-api.rst)."""
    zones = sorted(root.glob("sys/class/thermal/thermal_zone*"))
    for zone in zones[:_MOST_ZONES]:
        thousandths = _number(zone / "temp")
        if thousandths is not None:
            yield _text(zone / "type") or zone.name, thousandths / 1000


def _read_troubles(root: Path) -> tuple[list[str] | None, list[str] | None]:
    """Current and earlier problems of a Raspberry Pi; None if unknown.

    A kernel without the file of the firmware only reports the voltage (raspberrypi-hwmon.rst).
    """
    for pattern in _THROTTLED:
        for file in root.glob(pattern):
            if (bits := _number(file, 16)) is not None:
                return _set_bits(bits), _set_bits(bits >> _BEFORE)
    for name in root.glob("sys/class/hwmon/hwmon*/name"):
        if _text(name) == "rpi_volt" and (alarm := _number(name.with_name("in0_lcrit_alarm"))) is not None:
            return _set_bits(alarm), None
    return None, None


def _set_bits(bits: int) -> list[str]:
    return [trouble for bit, trouble in TROUBLES.items() if bits >> bit & 1]
