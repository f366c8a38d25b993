"""Pins that outlive the program that drives them: `pins/gpiod` from the outside."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from growd_drivers import hardware

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

    def levels(self) -> dict[int, int]:
        """The level of each pin that was ever driven."""
        return dict(self.history())

    def history(self) -> list[tuple[int, int]]:
        """Each write to a pin: its number and its level."""
        lines = self._file.read_text(encoding="ascii").splitlines()
        return [(int(pin), int(level)) for _, _, pin, level in map(str.split, lines)]

    def written(self) -> list[tuple[int, float]]:
        """Every write so far, the oldest first: the pin and its level."""
        lines = self._file.read_text(encoding="ascii").splitlines()
        return [(int(pin), float(level)) for _, _, pin, level in map(str.split, lines)]

    @contextmanager
    def here(self, chips: dict[int, str] | None = None) -> Iterator[None]:
        """This process is the program, for as long as the context lasts, with these GPIO chips."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            if chips is not None:
                patch.setenv("PINS_CHIPS", json.dumps(chips))
            patch.syspath_prepend(PACKAGE)
            for name in gpiod_modules():
                patch.delitem(sys.modules, name)
            patch.setattr(hardware, "_opened", [])
            try:
                yield
            finally:
                for gpio in hardware._opened:
                    gpio.close()
                for name in gpiod_modules():
                    del sys.modules[name]


def gpiod_modules() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "gpiod"]
