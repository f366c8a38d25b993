"""The configurations that ship."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).with_name("shipped")

PROFILES: Final = ("climate", "sim", "food-computer", "minimal")
"""Their names: a simulated chamber with heater, humidifier and nutrient tank; one with light and CO2;
SCD30, BH1750, lamp, valve and fan; an MH-Z19 and a lamp on a relay."""


def profile_path(name: str) -> Path:
    """The file of one of `PROFILES`."""
    return _FOLDER / f"{name}.toml"


def profile_text(name: str) -> str:
    """What stands in it, to begin a configuration with. Blocking."""
    return profile_path(name).read_text(encoding="utf-8")
