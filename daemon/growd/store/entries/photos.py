"""Photos: their formats, and their copies without metadata.

Cameras and phones write place, owner, device and time into a photo. A copy is the decoded picture, encoded
anew with its colour profile and how it is turned. Pillow is imported with the first photo: most chambers
have none, and it takes memory.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from growd.store.errors import PhotoError

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

TYPES: Final = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}
"""Media types of photos, and the endings of their names."""
MOST_PIXELS: Final = 25_000_000
"""Of a photo: a phone has 12 or 24 million. Decoded they take 100 MB."""
_MEDIA: Final = {"JPEG": "image/jpeg", "MPO": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
_KEPT: Final = frozenset({"icc_profile", "transparency"})
_ORIENTATION: Final = 0x0112  # TIFF 6.0, section 8
_DAMAGE: Final = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    LookupError,
    TypeError,
    struct.error,
    zlib.error,
)


def copy_photo(source: BinaryIO, target: BinaryIO) -> str:
    """Copy a photo without its metadata; its media type. Blocking. Raises `PhotoError` and OSError.

    Of several pictures in a file, as of a film, the copy has the first.
    """
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415  see above

    Image.MAX_IMAGE_PIXELS = None  # growd refuses with its own limit, before a pixel is decoded
    try:
        image = Image.open(source, formats=("JPEG", "PNG", "WEBP"))
    except UnidentifiedImageError:
        raise PhotoError("it is not a JPEG, PNG or WebP") from None
    except _DAMAGE as error:
        raise _refusal(error) from None
    with image:
        if image.width * image.height > MOST_PIXELS:
            raise PhotoError(f"it has more than {MOST_PIXELS // 1_000_000} million pixels")
        try:
            options = _options(image)
            image.load()
        except _DAMAGE as error:
            raise _refusal(error) from None
        media = _MEDIA[image.format or ""]
        image.info = {name: value for name, value in image.info.items() if name in _KEPT}
        image.save(target, media.removeprefix("image/"), **options)
    return media


def _options(image: ImageFile) -> dict[str, Any]:
    """What the copy keeps beside its pixels. The quality of a JPEG is that of the source."""
    from PIL import Image, JpegImagePlugin  # noqa: PLC0415

    options: dict[str, Any] = {"icc_profile": image.info.get("icc_profile"), "quality": 90}
    if isinstance(image, JpegImagePlugin.JpegImageFile):
        options |= {"qtables": image.quantization, "subsampling": JpegImagePlugin.get_sampling(image)}
        del options["quality"]
    turned = image.getexif().get(_ORIENTATION, 1)
    if turned in range(2, 9):
        options["exif"] = exif = Image.Exif()
        exif[_ORIENTATION] = turned
    return options


def _refusal(error: Exception) -> Exception:
    """An error of the disk as it is; else the photo is damaged."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    return PhotoError("it is damaged or incomplete")
