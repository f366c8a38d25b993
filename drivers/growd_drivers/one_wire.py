"""The 1-wire bus as files of the kernel. Source: Linux, Documentation/w1/w1-generic.rst."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

USUAL_PIN = 4
"""GPIO of the bus, if dtoverlay=w1-gpio names no other."""


class OneWireFiles(Protocol):
    """Files below /sys/bus/w1/devices."""

    def names(self) -> list[str]:
        """The buses and the devices on them, none if 1-wire is not switched on. Raises OSError."""

    def read(self, path: str, /) -> str:
        """The text of a file. Blocking: a conversion takes 0.75 s. Raises OSError."""


class SysfsOneWire:
    """The kernel's files."""

    def __init__(self, root: Path = Path("/sys/bus/w1/devices")) -> None:
        self._root = root

    def names(self) -> list[str]:
        """As `OneWireFiles`."""
        return sorted(path.name for path in self._root.iterdir()) if self._root.is_dir() else []

    def read(self, path: str, /) -> str:
        """As `OneWireFiles`."""
        return (self._root / path).read_text(encoding="ascii", errors="replace")
