"""Pins that outlive the program that drives them: `pins/RPi/GPIO.py` from the outside."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).with_name("pins")


class LastingPins:
    """The pins of one machine, in a file of `folder`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "pins"
        self._file.touch()
        self.environment = {"PINS_FILE": str(self._file), "PYTHONPATH": str(PACKAGE)}

    def left(self, levels: dict[int, int]) -> None:
        """A process that has ended has left these pins driven."""
        with self._file.open("a", encoding="ascii") as file:
            file.writelines(f"0 0 {pin} {level}\n" for pin, level in levels.items())

    def levels(self) -> dict[int, float]:
        """The level of each pin that was ever driven."""
        lines = self._file.read_text(encoding="ascii").splitlines()
        return {int(pin): float(level) for _, _, pin, level in map(str.split, lines)}

    def written(self) -> list[tuple[int, float]]:
        """Every write so far, the oldest first: the pin and its level."""
        lines = self._file.read_text(encoding="ascii").splitlines()
        return [(int(pin), float(level)) for _, _, pin, level in map(str.split, lines)]

    @contextmanager
    def here(self) -> Iterator[None]:
        """This process is the program, for as long as the context lasts."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(os.environ, "PINS_FILE", self.environment["PINS_FILE"])
            patch.syspath_prepend(PACKAGE)
            for name in ("RPi", "RPi.GPIO"):
                patch.delitem(sys.modules, name, raising=False)
            try:
                yield
            finally:
                if module := sys.modules.get("RPi.GPIO"):
                    module.release()
                for name in ("RPi", "RPi.GPIO"):
                    sys.modules.pop(name, None)
