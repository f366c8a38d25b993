"""Copies of photos: the picture is the same, and the metadata are gone."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.store.entries.photos import copy_photo, media_type
from growd.store.errors import PhotoError
from support.photos import SECRET, jpeg, plain_jpeg, plain_png, plain_webp, png, tiff, webp

PHOTOS = {"image/jpeg": jpeg, "image/png": png, "image/webp": webp}


def copied(photo: bytes) -> bytes:
    target = io.BytesIO()
    copy_photo(io.BytesIO(photo), target)
    return target.getvalue()


@pytest.mark.parametrize(
    ("photo", "plain"), [(jpeg(), plain_jpeg()), (png(), plain_png()), (webp(), plain_webp())]
)
def test_a_copy_is_the_picture_without_metadata(photo, plain):
    assert SECRET in photo
    assert copied(photo) == plain
    assert copied(plain) == plain


@pytest.mark.parametrize("make", PHOTOS.values())
def test_the_orientation_stays(make):
    copy = copied(make(6))
    assert SECRET not in copy
    assert b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, 6, 0, 0) in copy
    assert copied(copy) == copy


@pytest.mark.parametrize(("media", "make"), PHOTOS.items())
def test_the_type_comes_from_the_first_bytes(media, make):
    assert media_type(make()[:12]) == media
    assert copy_photo(io.BytesIO(make()), io.BytesIO()) == media


@pytest.mark.parametrize(
    "start", [b"", b"GIF89a", b"<svg xmlns=", b"\xff\xd8", b"RIFF\0\0\0\0WAVE", b"\x89PNG"]
)
def test_other_files_are_refused(start):
    assert media_type(start[:12]) is None
    with pytest.raises(PhotoError, match="not a JPEG, PNG or WebP"):
        copied(start + b" " * 100)


@pytest.mark.parametrize("make", PHOTOS.values())
def test_a_photo_that_is_cut_off_anywhere_is_refused(make):
    whole = make()
    last = len(whole) - whole[::-1].index(SECRET[::-1]) - len(SECRET)  # behind the picture
    end = last if make is not webp else len(whole)
    if make is jpeg:
        end -= len(b"MotionPhoto")
    for length in range(12, end):
        with pytest.raises(PhotoError):
            copied(whole[:length])


@pytest.mark.parametrize("length", [65_533, 65_534, 65_535, 65_536, 65_537, 200_000])
def test_a_scan_may_be_longer_than_what_is_read_at_once(length):
    assert copied(jpeg(body=length)) == plain_jpeg(body=length)


def test_a_marker_between_two_pieces_ends_a_scan():
    start = plain_jpeg()[:-2]
    scan = start.index(b"\xff\xda") + 2  # the data begin behind this segment
    begin = scan + struct.unpack(">H", start[scan : scan + 2])[0]
    for filling in range(65_530, 65_540):
        photo = start + bytes(max(0, filling - (len(start) - begin))) + b"\xff\xff\xd9"
        assert copied(photo).endswith(b"\xff\xd9")


@pytest.mark.parametrize(
    ("photo", "reason"),
    [
        (b"\xff\xd8\xff\xd9" + bytes(12), "no picture"),
        (b"\xff\xd8\xff\xe0\0\1" + bytes(12), "damaged"),
        (b"\xff\xd8\xff\xe0\0\2\0\0" + bytes(12), "damaged"),
        (png()[:8] + png()[33:], "damaged"),
        (plain_png()[:33] + plain_png()[-12:], "no picture"),
        (b"RIFF\4\0\0\0WEBP", "no picture"),
    ],
)
def test_a_file_without_a_picture_is_refused(photo, reason):
    with pytest.raises(PhotoError, match=reason):
        copied(photo)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", [0, 1, 9, 65_535])
def test_no_orientation_is_invented(order, orientation):
    photo = jpeg().replace(tiff(1), tiff(orientation, order))
    assert copied(photo) == plain_jpeg()


@given(st.sampled_from(list(PHOTOS.values())), st.integers(12, 400), st.binary(max_size=40))
def test_any_damage_gives_a_copy_or_a_refusal(make, place, junk):
    whole = make(3)
    damaged = whole[:place] + junk + whole[place + len(junk) :]
    try:
        copy = copied(damaged)
    except PhotoError:
        return
    assert len(copy) <= len(damaged)


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"\xff\xd8", b"\xff\xfe\0\2"),
        (b"\xff\xd8", b"\xff\xda\0\2x"),
        (plain_png()[:33], b"\0\0\0\0tEXt\0\0\0\0"),
        (b"RIFF\xff\xff\xff\0WEBP", b"JUNK\0\0\0\0"),
    ],
)
def test_a_photo_of_very_many_parts_is_refused(start, part):
    with pytest.raises(PhotoError, match="more than 65536 parts"):
        copied(start + part * 65_600)


def test_a_photo_of_fill_bytes_is_refused():
    with pytest.raises(PhotoError, match="damaged"):
        copied(b"\xff\xd8" + b"\xff" * 1_000 + b"\xd9")
