"""What a picture becomes, and what its green says of the leaves."""

import io
import random

import pytest
from PIL import Image, ImageDraw

from growd_camera.program import PictureError, leaves_in, prepare
from growd_hwsim.camera import picture
from support.photos import SECRET, jpeg

WHITE, DIM = {"white": 200.0}, {"white": 40.0, "daylight": 4.0}


def prepared(folder, content, **options):
    source = folder / "source"
    source.write_bytes(content)
    made = prepare(source, folder / "target", folder / "small", **{"width": 640, **options})
    target, small = (Image.open(io.BytesIO((folder / name).read_bytes())) for name in ("target", "small"))
    return made, target, small


def blobs(share, *, seed=1):
    """Random green ellipses on soil, stones and a white label, and the share that they really cover."""
    chance, size = random.Random(seed), (1200, 900)
    drawn, mask = Image.new("RGB", size, (110, 92, 74)), Image.new("L", size, 0)
    on, marks = ImageDraw.Draw(drawn), ImageDraw.Draw(mask)
    on.rectangle((0, 0, 200, 90), fill=(245, 245, 240))
    for _ in range(60):
        x, y, r = chance.randrange(1200), chance.randrange(900), chance.randrange(4, 30)
        grey = chance.randrange(60, 200)
        on.ellipse((x, y, x + r, y + r), fill=(grey, grey, grey + chance.randrange(8)))
    while mask.histogram()[255] < share * size[0] * size[1]:
        x, y, r = chance.randrange(1200), chance.randrange(900), chance.randrange(20, 60)
        green = (chance.randrange(40, 110), chance.randrange(130, 190), chance.randrange(30, 90))
        for draw, fill in ((on, green), (marks, 255)):
            draw.ellipse((x - r, y - r // 2, x + r, y + r // 2), fill=fill)
    file = io.BytesIO()
    drawn.save(file, "jpeg", quality=88)
    return file.getvalue(), 100 * mask.histogram()[255] / (size[0] * size[1])


@pytest.mark.parametrize("share", [0.02, 0.35, 0.9])
def test_the_cover_of_synthetic_pictures_is_within_three_percent(tmp_path, share):
    content, truth = blobs(share)
    made, *_ = prepared(tmp_path, content, width=1200)
    assert made.leaves.cover_percent == pytest.approx(truth, abs=3)
    assert 0.4 < made.leaves.greenness < 0.7


@pytest.mark.parametrize(("cover", "light"), [(0.05, WHITE), (0.3, DIM), (0.59, DIM), (0.9, WHITE)])
def test_the_cover_of_simulated_plants_is_within_three_percent(tmp_path, cover, light):
    made, *_ = prepared(tmp_path, picture(cover, light, 800))
    assert made.leaves.cover_percent == pytest.approx(100 * cover, abs=3)


def test_a_picture_of_the_dark_says_nothing_of_leaves_and_soil_has_none(tmp_path):
    dark, *_ = prepared(tmp_path, picture(0.5, {"daylight": 0.01}, 400))
    assert (dark.leaves.cover_percent, dark.leaves.greenness) == (None, None)
    bare, *_ = prepared(tmp_path, picture(0.0, WHITE, 400))
    assert (bare.leaves.cover_percent, bare.leaves.greenness) == (0.0, None)


def test_a_picture_is_narrowed_turned_and_loses_its_metadata(tmp_path):
    made, target, small = prepared(tmp_path, jpeg(body=100), rotation=90)
    assert target.size == (made.width, made.height) == (8, 8)
    assert SECRET not in (tmp_path / "target").read_bytes()
    wide = Image.new("RGB", (4056, 3040), "green")
    wide.paste("red", (0, 0, 2028, 3040))
    file = io.BytesIO()
    wide.save(file, "jpeg")
    made, target, small = prepared(tmp_path, file.getvalue(), width=1000, rotation=90)
    assert (target.size, small.size) == ((750, 1000), (320, 427))
    red, green, _ = target.getpixel((400, 100))  # what was on the left is above
    assert (red > 200, green < 60) == (True, True)
    assert made.size == (tmp_path / "target").stat().st_size


def test_what_is_no_whole_picture_is_refused(tmp_path):
    for content in (b"", b"<html>", jpeg()[:60], picture(0.5, WHITE, 640)[:9000]):
        with pytest.raises(PictureError):
            prepared(tmp_path, content)


def test_leaves_in_purple_light_are_not_taken_for_soil_without_a_word(tmp_path):
    """In red and blue light there is no green to see, so the cover is 0: docs/camera.md says so."""
    made, *_ = prepared(tmp_path, picture(0.6, {"red": 100.0, "blue": 50.0}, 400))
    assert made.leaves.cover_percent == 0.0
    assert leaves_in(Image.new("RGB", (100, 100), (60, 150, 50))).cover_percent == 100.0
