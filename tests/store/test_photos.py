"""Copies of photos: the picture is the same, and the metadata are gone."""

import io
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from growd.store.entries.photos import MOST_PIXELS, copy_photo
from growd.store.errors import PhotoError
from support.photos import SECRET, copy_of, jpeg, png, webp

PHOTOS = {"image/jpeg": jpeg, "image/png": png, "image/webp": webp}


@pytest.mark.parametrize(("media", "make"), PHOTOS.items())
@pytest.mark.parametrize("turned", [0, 1, 6, 9])
def test_a_copy_has_the_picture_the_way_it_is_turned_and_no_metadata(media, make, turned):
    photo = make(turned)
    assert SECRET in photo
    copy = io.BytesIO()
    assert copy_photo(io.BytesIO(photo), copy) == media
    assert SECRET not in copy.getvalue()
    with Image.open(io.BytesIO(photo)) as before, Image.open(copy) as after:
        assert dict(after.getexif()) == ({0x0112: 6} if turned == 6 else {})
        assert after.info.get("icc_profile") == before.info.get("icc_profile")
        assert after.mode == before.mode
        levels = ImageChops.difference(before, after).getextrema()
        assert max(highest for _, highest in (levels if isinstance(levels[0], tuple) else [levels])) <= 8


def encoded(kind, **options):
    file = io.BytesIO()
    picture = Image.radial_gradient("L").convert("RGB")
    picture.save(file, kind, **options)
    return file.getvalue()


def test_a_jpeg_keeps_its_quality_and_a_second_picture_is_left_out():
    for quality in (30, 95):
        photo = encoded("jpeg", quality=quality, comment=SECRET)
        assert len(copy_of(photo)) == pytest.approx(len(photo), rel=0.05)
    second = Image.new("RGB", (9, 9))
    two = encoded("mpo", save_all=True, append_images=[second])
    with Image.open(io.BytesIO(copy_of(two))) as copy:
        assert (copy.format, copy.size) == ("JPEG", (256, 256))


@pytest.mark.parametrize(
    "start",
    [b"", b"GIF89a", b"<svg xmlns=", b"\xff\xd8", b"RIFF\0\0\0\0WAVE", b"\x89PNG", b"\xff\xd8\xff\xd9"],
)
def test_other_files_are_refused(start):
    with pytest.raises(PhotoError):
        copy_of(start + b" " * 100)


@given(st.sampled_from(list(PHOTOS.values())), st.integers(0, 400), st.binary(max_size=40))
def test_any_damage_gives_a_copy_or_a_refusal(make, place, junk):
    whole = make(3)
    damaged = whole[:place] + junk + (whole[place + len(junk) :] if len(junk) % 2 else b"")
    try:
        copy = copy_of(damaged)
    except PhotoError:
        return
    assert SECRET not in copy


BOMB = """
import io, resource, sys
from growd.store.entries.photos import copy_photo
from growd.store.errors import PhotoError
copy_photo(io.BytesIO(open(sys.argv[1], "rb").read()), io.BytesIO())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    copy_photo(open(sys.argv[2], "rb"), io.BytesIO())
except PhotoError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_a_photo_of_too_many_pixels_is_refused_before_it_takes_memory(kind, tmp_path):
    side = int(MOST_PIXELS**0.5) + 1
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(encoded(kind))
    Image.new("L", (side, side)).save(large, kind)
    found = subprocess.run(
        [sys.executable, "-c", BOMB, small, large], check=True, capture_output=True, text=True
    )
    assert int(found.stdout) < 8_192  # KB; the pixels would take 25 MB and more
