"""The log of new points, which makes them durable for one block of the card.

A ring of frames in a file of fixed size (`BlockFile`). Each `append` writes one frame, in place and at once:

    magic   length  number  first   released  crc32   payload, JSON lines
    4 bytes u32     u64     u64     u64       u32     `length` bytes, one point in each line, then the note

All little-endian. `number` counts frames, and `first` is the sequence number of the first point. Points up to
`released` are not needed any more: they are delivered, or in growd.sqlite3. Releasing them thus costs no
write of its own. A frame is valid if its CRC-32 (of header and payload) matches; a frame that a power cut
tore was not acknowledged, and is overwritten. Frame numbers distinguish the rounds of the ring.

The note follows the last line: a short text as new as the newest frame. It holds the place of a recipe.

Behind each frame a block stays free, so that a full log can still take a frame that releases points.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec

from growd.store.block_file import BlockFile, open_own
from growd.store.damage import quarantine_file
from growd.store.encoding import point_from_json, points_from_json
from growd.store.errors import LocalStoreError, LogFullError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from mmap import mmap
    from pathlib import Path

    from growd.store.points import DataPoint

_HEADER: Final = struct.Struct("<4sIQQQ")
_CRC: Final = struct.Struct("<I")
_SECTOR: Final = 512  # the smallest block that any disk has
_MAGIC: Final = b"gLOG"
"""Format 1. A later format has its digit in place of the G, and the same header and check."""

FORMAT: Final = 1
LOG_NAME: Final = "points.log"
LOG_BYTES: Final = 1024 * 1024
_OVERHEAD: Final = _HEADER.size + _CRC.size
MOST_NOTE: Final = _SECTOR - _OVERHEAD
"""Bytes of a note, so that a frame with it and without points fits into one block."""


class _Frame(msgspec.Struct, frozen=True):
    number: int
    place: int  # in blocks
    blocks: int
    first: int
    last: int  # first - 1 where there are no points in it
    released: int

    @property
    def end(self) -> int:
        return self.place + self.blocks


class PointLog:
    """An open log. `recovered` holds the points that were not released, by sequence number, in order.

    `note` is that of the newest frame. `damage` is a phrase about points that can't be read, empty if all
    can. Every call blocks.
    """

    def __init__(self, file: BlockFile) -> None:
        self._file = file
        self._blocks = file.size // file.block
        found = sorted(_frames(file.read(), file.block), key=lambda pair: pair[0].number)
        frames = [frame for frame, _ in found]
        newest = frames[-1] if frames else None
        self._released = newest.released if newest else 0
        self._next_number = newest.number + 1 if newest else 1
        self._place = newest.end if newest else 0
        self._last = max((frame.last for frame in frames), default=0)
        self.note = found[-1][1].rpartition(b"\n")[2].decode(errors="replace") if found else ""
        self._frames = deque(frame for frame in frames if frame.last > self._released)
        points = {number: point for frame, payload in found for number, point in _numbered(frame, payload)}
        self.recovered = {number: points[number] for number in sorted(points) if number > self._released}
        missing = self._last - self._released - len(self.recovered)
        self.damage = f"{missing} of its points can't be read" if missing else ""

    @property
    def has_frames(self) -> bool:
        """Whether a frame was found or written."""
        return self._next_number > 1

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._file.size

    @property
    def last(self) -> int:
        """The sequence number of the newest point, 0 for none."""
        return self._last

    def append(self, points: Sequence[str], released: int | None, note: str = "") -> int:
        """Make points (from `point_to_json`) durable; the sequence number of the first.

        `released` is the number up to which points are not needed any more, None for all. `note` has no line
        break and up to `MOST_NOTE` bytes. Raises OSError, or `LogFullError` if there is no room; then nothing
        has changed.
        """
        first = self._last + 1
        released = self._last if released is None else released
        end = note.encode()
        payload = "".join(f"{point}\n" for point in points).encode() + end
        place = self._place_for(payload, released)
        if place is None and released > self._released:
            free = self._place_for(end, released)
            if free is not None:
                self._write(free, first, 0, released, end)  # released points may be overwritten only now
                place = self._place_for(payload, released)
        if place is None:
            raise LogFullError(f"the log has no room for {len(payload)} bytes more")
        self._write(place, first, len(points), released, payload)
        self.note = note
        return first

    def close(self, released: int | None, note: str = "") -> None:
        """Write the note and what is released by now, so that the next start does not send it again."""
        try:
            if (self._last if released is None else released) > self._released or note != self.note:
                self.append([], released, note)
        finally:
            self._file.close()

    def _place_for(self, payload: bytes, released: int) -> int | None:
        """The block for the next frame, None if points that are not released are in its way.

        Also None if no block would stay free behind it once points up to `released` are released: in a log
        that is full to the last block, no frame could release anything.
        """
        while self._frames and self._frames[0].last <= self._released:
            self._frames.popleft()
        blocks = self._blocks_of(payload)
        place = self._place if self._place + blocks <= self._blocks else 0
        behind = (place + blocks) % self._blocks
        is_free = self._is_free(place, blocks, self._released) and self._is_free(behind, 1, released)
        return place if is_free and blocks <= self._blocks // 2 else None

    def _is_free(self, place: int, blocks: int, released: int) -> bool:
        kept = (frame for frame in self._frames if frame.last > released)
        return all(frame.end <= place or place + blocks <= frame.place for frame in kept)

    def _write(self, place: int, first: int, points: int, released: int, payload: bytes) -> None:
        number = self._next_number
        self._next_number += 1  # also if this fails: the frame may be on the disk all the same
        header = _HEADER.pack(_MAGIC, len(payload), number, first, released)
        self._file.write(place, header + _CRC.pack(crc32(payload, crc32(header))) + payload)
        last = first + points - 1
        frame = _Frame(number, place, self._blocks_of(payload), first, last, released)
        self._frames.append(frame)
        self._place = frame.end
        self._released = released
        self._last = last

    def _blocks_of(self, payload: bytes) -> int:
        return -(-(_OVERHEAD + len(payload)) // self._file.block)


def _frames(data: bytes | mmap, block: int) -> Iterator[tuple[_Frame, bytes]]:
    """All valid frames of any round, in the order of the file, and their payloads."""
    for start in range(0, len(data) - _SECTOR + 1, _SECTOR):  # the folder may have come from another disk
        if data[start : start + len(_MAGIC)] != _MAGIC:
            continue
        _, length, number, first, released = _HEADER.unpack_from(data, start)
        (check,) = _CRC.unpack_from(data, start + _HEADER.size)
        header = data[start : start + _HEADER.size]
        payload = data[start + _OVERHEAD : start + _OVERHEAD + length]
        if len(payload) == length and crc32(payload, crc32(header)) == check:
            last = first + payload.count(b"\n") - 1
            place, end = start // block, -(-(start + _OVERHEAD + length) // block)
            yield _Frame(number, place, end - place, first, last, released), payload


def _newer_format(data: bytes) -> int | None:
    """The format of a log that a newer growd has written, else None."""
    for start in range(0, len(data) - _SECTOR + 1, _SECTOR):
        magic, length, *_ = _HEADER.unpack_from(data, start)
        if magic[:3] == _MAGIC[:3] and magic[3:].isdigit():
            header = data[start : start + _HEADER.size]
            payload = data[start + _OVERHEAD : start + _OVERHEAD + length]
            (check,) = _CRC.unpack_from(data, start + _HEADER.size)
            if crc32(payload, crc32(header)) == check:
                return int(magic[3:])
    return None


def _numbered(frame: _Frame, payload: bytes) -> Iterator[tuple[int, DataPoint]]:
    lines = payload.decode(errors="replace").split("\n")[:-1]  # not splitlines: a point may hold U+2028
    try:
        yield from zip(range(frame.first, frame.last + 1), points_from_json(lines), strict=True)
    except ValueError:  # one of them is none; the others are not lost with it
        for number, line in enumerate(lines, frame.first):
            with suppress(ValueError):
                yield number, point_from_json(line)


def newer_log(path: Path) -> str:
    """A sentence if a newer growd has written the log at `path`, else "". Blocking."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            version = _newer_format(file.read())
    except OSError:
        return ""  # it does not exist, or the start reports the error
    if version is None:
        return ""
    return f"{path} was written by a newer growd: its format is {version}, this growd knows up to {FORMAT}"


def open_log(path: Path, had_bytes: int = 0) -> tuple[PointLog, list[str]]:
    """Open the log or make a new one, and sentences about damage. Raises `LocalStoreError`. Blocking.

    `had_bytes` is its size in an earlier run that wrote frames; 0 if there was none.
    """
    if newer := newer_log(path):
        raise LocalStoreError(newer)
    try:
        damage, notices = _missing_part(path, had_bytes), []
        if damage:
            notices.append(f"{path} {damage}; points that were not delivered may be lost; {_kept_copy(path)}")
        log = _log_at(path)
    except OSError as error:
        raise LocalStoreError(f"{path} can't be opened: {error.strerror or error}") from error
    if not notices and had_bytes and not log.has_frames:
        notices.append(f"{path} is empty; points that were not delivered may be lost; {_kept_copy(path)}")
    elif not notices and log.damage:
        notices.append(f"{path} was damaged: {log.damage}; {_kept_copy(path)}")
    if not log.has_frames:
        with suppress(OSError):  # the first points make one
            log.append([], 0)  # from now on, an empty log is damage
    return log, notices


def _missing_part(path: Path, had_bytes: int) -> str:
    """What is missing of a log that an earlier run wrote, "" if nothing is."""
    if not had_bytes or path.is_symlink():
        return ""
    if not path.exists():
        return "is missing"
    size = path.stat().st_size
    return f"is cut off: it has {size} of {had_bytes} bytes" if size < had_bytes else ""


def _kept_copy(path: Path) -> str:
    if not path.exists():
        return "a new one was made"
    try:
        return f"it is kept as {quarantine_file(path, copy=True)}"
    except OSError as error:
        return f"no copy of it could be made: {error.strerror or error}"


def _log_at(path: Path) -> PointLog:
    file = BlockFile.open(path, LOG_BYTES)
    try:
        return PointLog(file)
    except BaseException:
        file.close()
        raise
