"""The log of new points: where they are safe until the database has them, for one block of the card.

A ring of frames in a file of fixed size (`BlockFile`). Each `append` writes one frame, in place and at once:

    magic   length  number  first   released  crc32   payload, JSON lines
    4 bytes u32     u64     u64     u64       u32     `length` bytes, one point in each line, then the note

All little-endian. `number` counts frames, `first` is the sequence number of the first point, and points up to
`released` need not be kept any more: the database has them, or another file. What is released thus costs no
write of its own. A frame is whole when its CRC-32 (of header and payload) holds; one that a power cut tore
was not acknowledged, and is written over. Frames of earlier rounds are told by their numbers.

What follows the last line is the note: a short text that is as new as the newest frame and costs no write of
its own. The place of a recipe stands there.

Behind each frame a block stays free: when the log is full, what is released can still be said there.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol
from zlib import crc32

from growd.store.encoding import points_from_json
from growd.store.errors import LogFullError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd.store.points import DataPoint

_HEADER: Final = struct.Struct("<4sIQQQ")
_CRC: Final = struct.Struct("<I")
_SECTOR: Final = 512  # the smallest block that any disk has
_MAGIC: Final = b"gLOG"
"""Format 1. A later one has its digit in place of the G, and header and check as they are here."""

FORMAT: Final = 1
LOG_NAME: Final = "points.log"
_OVERHEAD: Final = _HEADER.size + _CRC.size
MOST_NOTE: Final = _SECTOR - _OVERHEAD
"""Bytes of a note: a frame without points has to fit into one block with it."""


class Blocks(Protocol):
    """What the log needs of a `BlockFile`."""

    size: int
    block: int

    def read(self) -> bytes:
        """All of it."""

    def write(self, number: int, data: bytes) -> None:
        """Write at the block of that number; on the disk when it returns."""

    def close(self) -> None:
        """Write no more."""


@dataclass(frozen=True, slots=True)
class _Frame:
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
    """An open log. `recovered` holds the points of before, by their sequence numbers, in order.

    `note` is that of the newest frame. `damage` says in a sentence what of the points can't be read, and is
    empty where all can. Blocking.
    """

    def __init__(self, file: Blocks) -> None:
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
    def last(self) -> int:
        """The sequence number of the newest point, 0 for none."""
        return self._last

    def append(self, points: Sequence[str], released: int | None, note: str = "") -> int:
        """Write these points, as `point_to_json` has them; the sequence number of the first.

        They are on the disk when this returns. `released` is the number up to which no point is needed any
        more, None for all there are. `note` has no line break and up to `MOST_NOTE` bytes. OSError if the
        disk can't; `LogFullError` if there is no room; then nothing has changed.
        """
        first = self._last + 1
        released = self._last if released is None else released
        end = note.encode()
        payload = "".join(f"{point}\n" for point in points).encode() + end
        place = self._place_for(payload, released)
        if place is None and released > self._released:
            free = self._place_for(end, released)
            if free is not None:
                self._write(free, first, 0, released, end)  # what is released may be written over only now
                place = self._place_for(payload, released)
        if place is None:
            raise LogFullError(f"the log has no room for {len(payload)} bytes more")
        self._write(place, first, len(points), released, payload)
        self.note = note
        return first

    def close(self, released: int | None, note: str = "") -> None:
        """Keep what is released by now, so that the next start need not look after it again, and the note."""
        try:
            if (self._last if released is None else released) > self._released or note != self.note:
                self.append([], released, note)
        finally:
            self._file.close()

    def _place_for(self, payload: bytes, released: int) -> int | None:
        """The block where the next frame goes; None while points that must be kept are in its way.

        Or if no block would be free behind it once points up to `released` need not be kept: in a log that
        is full to the last block no frame could ever say so.
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
        self._next_number += 1  # also if this fails: it may be on the disk all the same, and not the newest
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


def _frames(data: bytes, block: int) -> Iterator[tuple[_Frame, bytes]]:
    """All whole frames, of whatever round, as they lie, and their payloads."""
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


def newer_format(data: bytes) -> int | None:
    """The format of a log that a newer growd has written, None where it is one of this."""
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
    points = points_from_json(payload.decode().split("\n")[:-1])  # a line may hold what Python takes for one
    return zip(range(frame.first, frame.last + 1), points, strict=True)
