"""Photos for tests: small, whole, and with metadata."""

import base64
import io
import struct
import zlib

from growd.store.entries.photos import copy_photo

SECRET = b"52.5200N 13.4050E"
"""What the metadata of the photos say, and what no copy may have."""


def jpeg(orientation=1, *, body=0):
    """A picture of 8 by 8 pixels, with metadata before, in and behind it; `body` bytes longer."""
    exif = b"Exif\0\0" + tiff(orientation)
    scan = bytes(number % 255 for number in range(body)).replace(b"\xff", b"\xff\0")
    return b"".join(
        [
            _START,
            _segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"),
            _segment(0xE1, exif),
            _segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + SECRET),
            _segment(0xE2, b"ICC_PROFILE\0\1\1profile"),
            _segment(0xE2, b"MPF\0" + SECRET),
            _segment(0xED, b"Photoshop 3.0\0" + SECRET),
            _segment(0xFE, SECRET),
            _PICTURE[2:-2],
            scan,
            b"\xff\xd9",
            b"MotionPhoto" + SECRET,
        ]
    )


def copy_of(photo):
    """The copy that growd makes of a photo."""
    target = io.BytesIO()
    copy_photo(io.BytesIO(photo), target)
    return target.getvalue()


def png(orientation=1):
    """A picture of 2 by 2 pixels, with metadata."""
    return b"".join(
        [
            *_PNG_START,
            _chunk(b"tEXt", b"Comment\0" + SECRET),
            _chunk(b"eXIf", tiff(orientation)),
            *_PNG_REST,
            SECRET,
        ]
    )


def webp(orientation=1):
    """A picture in the extended format, with metadata."""
    chunks = [
        _riff(b"VP8X", bytes((0x0C, 0, 0, 0, 0, 0, 0, 0, 0, 0))),
        _riff(b"VP8L", _LOSSLESS),
        _riff(b"EXIF", tiff(orientation)),
        _riff(b"XMP ", SECRET),
    ]
    return _riff(b"RIFF", b"WEBP" + b"".join(chunks))


def tiff(orientation, order="<"):
    """EXIF data with an orientation, and with a text."""
    head = {"<": b"II*\0", ">": b"MM\0*"}[order]
    entries = struct.pack(f"{order}HHII", 0x010F, 2, len(SECRET), 38)
    entries += struct.pack(f"{order}HHIHH", 0x0112, 3, 1, orientation, 0)
    return head + struct.pack(f"{order}IH", 8, 2) + entries + struct.pack(f"{order}I", 0) + SECRET


def _segment(marker, body):
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def _chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _riff(kind, body):
    return kind + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


_START = b"\xff\xd8"
_PICTURE = base64.b64decode(
    "/9j/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/"
    "wAALCAAIAAgBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQR"
    "BRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZn"
    "aGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo"
    "6erx8vP09fb3+Pn6/9oACAEBAAA/AD+wv9iv/9k="
)
_PNG_START = [b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0))]
_PNG_REST = [_chunk(b"IDAT", zlib.compress(b"\0\1\2\0\3\4")), _chunk(b"IEND", b"")]
_LOSSLESS = base64.b64decode("LwAAAAAHUMACFrD/gYjofwA=")

COPIES = {"jpeg": copy_of(jpeg()), "turned": copy_of(jpeg(6)), "png": copy_of(png()), "webp": copy_of(webp())}
"""What growd keeps of the photos; made here, since the event loop of a test may not wait for it."""
