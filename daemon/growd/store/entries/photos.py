"""Photos: their formats, and their copies without metadata.

Cameras and phones write place, owner, device and time into a photo. A copy has only what is needed to show
it: the picture, the colour profile, and how it is turned.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from itertools import count
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from growd.store.errors import PhotoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TYPES: Final = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}
"""Media types of photos, and the endings of their names."""
_PIECE: Final = 64 * 1024
_MOST_PARTS: Final = 65_536  # segments or chunks of a photo: each takes time, whatever its size
_MOST_FILL: Final = 64  # bytes before a marker of JPEG
_MOST_EXIF: Final = 64 * 1024  # bytes that are searched for the orientation
_CHUNK: Final = struct.Struct(">I4s")  # PNG: length and type
_RIFF: Final = struct.Struct("<4sI")  # WebP: type and length

# JPEG: ITU-T T.81, annex B; EXIF and ICC profiles in it: Exif 2.32, section 4.5.4, and ICC.1:2022, annex B.4
_MARKER: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # that ends entropy-coded data
_END, _SCAN, _APP0, _APP1, _APP2, _APP14 = 0xD9, 0xDA, 0xE0, 0xE1, 0xE2, 0xEE
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_TABLES: Final = frozenset({0xC4, 0xCC, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF})
_EXIF: Final = b"Exif\0\0"

# PNG: www.w3.org/TR/png-3, section 11
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PNG_KEPT: Final = frozenset({
    b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"cHRM", b"gAMA", b"iCCP", b"sBIT", b"sRGB", b"cICP",
    b"mDCV", b"cLLI", b"bKGD", b"pHYs", b"acTL", b"fcTL", b"fdAT",
})  # fmt: skip

# WebP: RFC 9649, section 2
_WEBP_KEPT: Final = frozenset({b"VP8 ", b"VP8L", b"VP8X", b"ANIM", b"ANMF", b"ALPH", b"ICCP"})
_PICTURES: Final = frozenset({b"VP8 ", b"VP8L", b"ANMF"})
_HAS_EXIF, _HAS_XMP = 0x08, 0x04

_ORIENTATION: Final = 0x0112  # the tag (TIFF 6.0, section 8), a SHORT
_SHORT: Final = 3


class _Format(NamedTuple):
    media: str
    copy: Callable[[BinaryIO, BinaryIO], None]


def media_type(start: bytes) -> str | None:
    """The media type of a photo by its first 12 bytes; None for other files."""
    found = _format_of(start)
    return None if found is None else found.media


def copy_photo(source: BinaryIO, target: BinaryIO) -> str:
    """Copy a photo without its metadata; its media type. Blocking. Raises `PhotoError` and OSError.

    What follows the end of the picture is left out, and the picture itself is not decoded.
    """
    found = _format_of(source.read(12))
    if found is None:
        raise PhotoError("it is not a JPEG, PNG or WebP")
    source.seek(0)
    found.copy(source, target)
    return found.media


def _copy_jpeg(source: BinaryIO, target: BinaryIO) -> None:
    target.write(_take(source, 2))
    seen = set()
    parts = count(1)
    while (marker := _next_marker(source)) != _END:
        _check_parts(next(parts))
        seen.add(marker)
        body = _take(source, struct.unpack(">H", _take(source, 2))[0] - 2)
        kept = _kept_segment(marker, body)
        if kept is not None:
            target.write(bytes((0xFF, marker)) + struct.pack(">H", len(kept) + 2) + kept)
        if marker == _SCAN:
            _copy_scan(source, target)
    if _SCAN not in seen or seen.isdisjoint(_FRAMES):
        raise PhotoError("it has no picture")
    target.write(bytes((0xFF, _END)))


def _check_parts(number: int) -> None:
    if number > _MOST_PARTS:
        raise PhotoError(f"it has more than {_MOST_PARTS} parts")


def _next_marker(source: BinaryIO) -> int:
    if _take(source, 1) != b"\xff":
        raise PhotoError("it is damaged")
    for _ in range(_MOST_FILL):
        if (marker := _take(source, 1)[0]) != 0xFF:  # noqa: PLR2004  not a fill byte
            return marker
    raise PhotoError("it is damaged")


def _kept_segment(marker: int, body: bytes) -> bytes | None:
    """What the copy has of a segment; None for nothing."""
    if marker == _SCAN or marker in _FRAMES or marker in _TABLES:
        return body
    if marker == _APP1 and body.startswith(_EXIF):
        turned = _orientation(body[len(_EXIF) :])
        return _EXIF + _exif(turned) if turned > 1 else None
    kept = {_APP0: b"JFIF\0", _APP2: b"ICC_PROFILE\0", _APP14: b"Adobe"}.get(marker)
    return body if kept is not None and body.startswith(kept) else None


def _copy_scan(source: BinaryIO, target: BinaryIO) -> None:
    """Copy entropy-coded data up to the next marker."""
    while len(piece := source.read(_PIECE)) > 1:
        found = _MARKER.search(piece)
        end = found.start() if found else len(piece) - piece.endswith(b"\xff")
        target.write(piece[:end])
        source.seek(end - len(piece), os.SEEK_CUR)
        if found:
            return
    raise PhotoError("it is incomplete")


def _copy_png(source: BinaryIO, target: BinaryIO) -> None:
    target.write(_take(source, len(_PNG)))
    seen: set[bytes] = set()
    parts = count(1)
    while b"IEND" not in seen:
        _check_parts(next(parts))
        length, kind = _CHUNK.unpack(_take(source, _CHUNK.size))
        if not seen and kind != b"IHDR":
            raise PhotoError("it is damaged")
        seen.add(kind)
        if kind in _PNG_KEPT:
            target.write(_CHUNK.pack(length, kind))
            _copy(source, target, length + 4)  # and its checksum
        elif kind == b"eXIf" and (turned := _orientation(_taken_exif(source, length + 4))) > 1:
            body = kind + _exif(turned)
            target.write(struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)))
        elif kind != b"eXIf":
            _skip(source, length + 4)
    if b"IDAT" not in seen:
        raise PhotoError("it has no picture")


def _copy_webp(source: BinaryIO, target: BinaryIO) -> None:
    _, length = _RIFF.unpack(_take(source, _RIFF.size))
    end = _RIFF.size + length
    target.write(_RIFF.pack(b"RIFF", 0) + _take(source, 4))
    seen: set[bytes] = set()
    flags, exif = None, b""
    parts = count(1)
    while source.tell() < end:
        _check_parts(next(parts))
        kind, length = _RIFF.unpack(_take(source, _RIFF.size))
        seen.add(kind)
        padded = length + length % 2
        if kind == b"VP8X":
            flags = target.tell() + _RIFF.size
        if kind in _WEBP_KEPT:
            target.write(_RIFF.pack(kind, length))
            _copy(source, target, padded)
        elif kind == b"EXIF" and (turned := _orientation(_taken_exif(source, padded))) > 1:
            exif = _exif(turned)
        elif kind != b"EXIF":
            _skip(source, padded)
    if seen.isdisjoint(_PICTURES):
        raise PhotoError("it has no picture")
    if exif:
        target.write(_RIFF.pack(b"EXIF", len(exif)) + exif)
    _finish_webp(target, flags, has_exif=bool(exif))


def _finish_webp(target: BinaryIO, flags: int | None, *, has_exif: bool) -> None:
    """Correct the length of the file, and the flags at this place, that say what metadata it has."""
    length = target.tell() - _RIFF.size
    target.seek(0)
    target.write(_RIFF.pack(b"RIFF", length))
    if flags is not None:
        target.seek(flags)
        before = target.read(1)[0] & ~(_HAS_EXIF | _HAS_XMP)
        target.seek(flags)
        target.write(bytes((before | (_HAS_EXIF if has_exif else 0),)))


def _orientation(tiff: bytes) -> int:
    """The orientation in EXIF data, 1 to 8; 1 (upright) if it has none or can't be read."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return 1
    try:
        (first,) = struct.unpack_from(f"{order}I", tiff, 4)
        (size,) = struct.unpack_from(f"{order}H", tiff, first)
        for number in range(size):
            tag, kind, _, value = struct.unpack_from(f"{order}HHIH", tiff, first + 2 + 12 * number)
            if tag == _ORIENTATION and kind == _SHORT:
                return value if 1 <= value <= 8 else 1  # noqa: PLR2004  TIFF 6.0
    except struct.error:
        pass
    return 1


def _exif(orientation: int) -> bytes:
    """EXIF data with nothing but an orientation."""
    return b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, _ORIENTATION, _SHORT, 1, orientation, 0, 0)


def _taken_exif(source: BinaryIO, length: int) -> bytes:
    """The beginning of EXIF data of this length, all of which is read."""
    taken = _take(source, min(length, _MOST_EXIF))
    _skip(source, length - len(taken))
    return taken


def _copy(source: BinaryIO, target: BinaryIO, length: int) -> None:
    target.writelines(_pieces(source, length))


def _skip(source: BinaryIO, length: int) -> None:
    for _ in _pieces(source, length):
        pass


def _pieces(source: BinaryIO, length: int) -> Iterator[bytes]:
    while length:
        piece = _take(source, min(length, _PIECE))
        length -= len(piece)
        yield piece


def _take(source: BinaryIO, length: int) -> bytes:
    if length < 0:
        raise PhotoError("it is damaged")
    taken = source.read(length)
    if len(taken) < length:
        raise PhotoError("it is incomplete")
    return taken


_JPEG_FORMAT: Final = _Format("image/jpeg", _copy_jpeg)
_PNG_FORMAT: Final = _Format("image/png", _copy_png)
_WEBP_FORMAT: Final = _Format("image/webp", _copy_webp)


def _format_of(start: bytes) -> _Format | None:
    if start.startswith(b"\xff\xd8\xff"):
        return _JPEG_FORMAT
    if start.startswith(_PNG):
        return _PNG_FORMAT
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return _WEBP_FORMAT
    return None
