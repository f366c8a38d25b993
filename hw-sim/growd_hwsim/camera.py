"""A simulated camera above the plants: draws as much of the picture green as leaves cover, in their light."""

from __future__ import annotations

import io
import math
import random
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from growd_hwsim.chamber import SimulatedChamber

_COLUMNS, _ROWS = 4, 3
_LEAVES: Final = 13  # of a plant
_GOLDEN: Final = math.radians(137.508)  # between two leaves (phyllotaxis of most rosettes)
_MASK: Final = 240  # width of the mask by which the size of the leaves is found
_TRAY: Final = (96, 88, 82)
_LEAF: Final = (74, 138, 52)
_NOISE: Final = 6.0  # of the sensor, in steps of 255
_FULL_PPFD: Final = 60.0  # umol/m2/s; from here on the exposure makes up for it
_COLOURS: Final = {
    "white": (1.0, 1.0, 1.0),
    "daylight": (0.95, 1.0, 1.05),
    "red": (1.0, 0.08, 0.05),
    "blue": (0.05, 0.12, 1.0),
}
"""What the pixels of a camera see of each source."""


def picture_of(chamber: SimulatedChamber, width: int) -> bytes:
    """The plants of a chamber now, in the light that falls on them, as a JPEG of 4 to 3."""
    return picture(chamber.canopy_cover(), chamber.photons_by_source(), width)


def picture(cover: float, photons: dict[str, float], width: int) -> bytes:
    """Plants that cover this share of a picture; `photons` is the PPFD of each source in umol/m2/s."""
    size = (width, width * 3 // 4)
    drawn = Image.new("RGB", size, _TRAY)
    _draw(ImageDraw.Draw(drawn), size, _size_of_leaves(round(cover, 3)), shades=True)
    lit = drawn.convert("RGB", _light(photons))
    noise = Image.effect_noise(size, _NOISE).convert("RGB")
    file = io.BytesIO()
    Image.blend(lit, noise, 0.04).save(file, "jpeg", quality=90)
    return file.getvalue()


def _light(photons: dict[str, float]) -> tuple[float, ...]:
    """The matrix from colours in white light to those in this light."""
    whole = sum(photons.values())
    exposed = min(1.0, whole / _FULL_PPFD)
    parts = [
        exposed * sum(_COLOURS[name][band] * each for name, each in photons.items()) / max(whole, 1e-9)
        for band in range(3)
    ]
    red, green, blue = parts
    return (red, 0, 0, 0, 0, green, 0, 0, 0, 0, blue, 0)


@lru_cache(16)
def _size_of_leaves(cover: float) -> float:
    """The size of the leaves at which they cover this share, by bisection."""
    size = (_MASK, _MASK * 3 // 4)
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        mask = Image.new("L", size, 0)
        _draw(ImageDraw.Draw(mask), size, middle)
        share = mask.histogram()[255] / (size[0] * size[1])
        low, high = (middle, high) if share < cover else (low, middle)
    return (low + high) / 2


def _draw(draw: ImageDraw.ImageDraw, size: tuple[int, int], leaf: float, *, shades: bool = False) -> None:
    """Rosettes in rows; `leaf` is the length of a leaf over the distance of two plants, 0 to 1."""
    if leaf <= 0.0:
        return
    step = size[0] / _COLUMNS
    chance = random.Random(7)  # noqa: S311  the same plants each time
    for row in range(_ROWS):
        for column in range(_COLUMNS):
            centre = ((column + 0.5) * step, (row + 0.5) * step)
            turned = chance.uniform(0, 2 * math.pi)
            vigour = chance.uniform(0.85, 1.15)
            for number in range(_LEAVES):
                length = leaf * vigour * step * (1.1 - 0.6 * number / _LEAVES)
                fill = _shade(number) if shades else 255
                draw.polygon(_outline(centre, turned + number * _GOLDEN, length), fill=fill)


def _shade(number: int) -> tuple[int, ...]:
    """Inner leaves are younger and lighter."""
    return tuple(round(part * (0.8 + 0.4 * number / _LEAVES)) for part in _LEAF)


def _outline(centre: tuple[float, float], angle: float, length: float) -> list[tuple[float, float]]:
    """An ellipse from the centre outwards."""
    points = []
    for step in range(14):
        turn = 2 * math.pi * step / 14
        along, across = length * (0.5 + 0.5 * math.cos(turn)), 0.32 * length * math.sin(turn)
        points.append(
            (
                centre[0] + along * math.cos(angle) - across * math.sin(angle),
                centre[1] + along * math.sin(angle) + across * math.cos(angle),
            )
        )
    return points
