"""The files that show the state of a Raspberry Pi, below a root folder. All functions block.

A file that is missing or can't be read is None: each check says what that means.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CELL_BYTES: Final = 4
_MOST_RECORDS: Final = 100_000
_RECORD_BYTES: Final = 8_192
_MOST_PROCESSES: Final = 10_000


@dataclass(frozen=True, slots=True)
class PiFiles:
    """The file system of the machine, "/" for this one."""

    root: Path

    def text(self, place: str) -> str | None:
        """The content of a small file, without the terminator of the device tree."""
        try:
            return (self.root / place).read_text(encoding="utf-8", errors="replace").strip(" \n\0")
        except OSError:
            return None

    def number(self, place: str) -> int | None:
        """The number in a file of the kernel, decimal or with 0x."""
        try:
            return int(self.text(place) or "", 0)
        except ValueError:
            return None

    def cell(self, place: str) -> int | None:
        """A cell of the device tree: four bytes, big-endian."""
        try:
            content = (self.root / place).read_bytes()
        except OSError:
            return None
        return int.from_bytes(content, "big") if len(content) == _CELL_BYTES else None

    def link(self, place: str) -> str | None:
        """The name that a link points to, without folders."""
        try:
            return (self.root / place).readlink().name
        except OSError:
            return None

    def exists(self, place: str) -> bool:
        """Whether there is such a file, folder or link."""
        return os.path.lexists(self.root / place)

    def found(self, pattern: str) -> list[str]:
        """The places that match a pattern, sorted."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))

    def kernel_log(self) -> list[str] | None:
        """The lines of the kernel's log (Linux, ABI/testing/dev-kmsg); None if it may not be read."""
        try:
            descriptor = os.open(self.root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return "".join(_records(descriptor)).splitlines()
        finally:
            os.close(descriptor)

    def open_by(self) -> Iterator[tuple[str, str]]:
        """Each open file in /dev, and the program that has it open. Others' programs need root."""
        for folder in self.found("proc/[0-9]*/fd")[:_MOST_PROCESSES]:
            process = folder.removesuffix("/fd")
            try:
                descriptors = list((self.root / folder).iterdir())
            except OSError:
                continue
            for descriptor in descriptors:
                try:
                    target = str(descriptor.readlink())
                except OSError:
                    continue
                if target.startswith("/dev/"):
                    yield target, self._program(process)

    def _program(self, process: str) -> str:
        """The words of its command line, shortened; else its name."""
        words = (self.text(f"{process}/cmdline") or "").split("\0")
        return " ".join(words)[:60] or self.text(f"{process}/comm") or process


def _records(descriptor: int) -> Iterator[str]:
    """Each read of /dev/kmsg gives one record, until there is no further one."""
    for _ in range(_MOST_RECORDS):
        try:
            record = os.read(descriptor, _RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # the kernel overwrote it meanwhile
            continue
        except OSError:
            return
        if not record:
            return
        yield record.decode(errors="replace")
