"""Pins that outlive the program that drives them: the stand-ins in `pins/` from the outside."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from growd_drivers.pins import release_pins

PACKAGE = Path(__file__).with_name("pins")
_STAND_INS = {"gpiod", "RPi", "pins_file"}


class Write(NamedTuple):
    """A write to a pin: who did it at which monotonic time."""

    process: int
    cpu_s: float
    pin: int
    level: int
    at: float


class LastingPins:
    """The pins of one machine, in a file of `folder`."""

    def __init__(self, folder):
        self._file = folder / "pins"
        self._file.touch()
        self.environment = {"PINS_FILE": str(self._file), "PYTHONPATH": str(PACKAGE)}

    def left(self, levels):
        """A process that has ended has left these pins driven."""
        with self._file.open("a", encoding="ascii") as file:
            file.writelines(f"0 0 {pin} {level} 0\n" for pin, level in levels.items())

    def levels(self):
        """The level of each pin that was ever driven."""
        return dict(self.history())

    def history(self):
        """Each write to a pin, the oldest first: its number and its level."""
        return [(each.pin, each.level) for each in self.writes()]

    def writes(self):
        """Each write to a pin, the oldest first."""
        lines = self._file.read_text(encoding="ascii").splitlines()
        return [
            Write(int(process), float(cpu_s), int(pin), int(level), float(at))
            for process, cpu_s, pin, level, at in map(str.split, lines)
        ]

    @contextmanager
    def here(self, chips=None):
        """This process is the program, for as long as the context lasts, with these GPIO chips."""
        release_pins()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            if chips is not None:
                patch.setenv("PINS_CHIPS", json.dumps(chips))
            patch.syspath_prepend(PACKAGE)
            for name in _stand_ins():
                patch.delitem(sys.modules, name)
            try:
                yield
            finally:
                release_pins()
                for name in _stand_ins():
                    del sys.modules[name]


def _stand_ins():
    return [name for name in sys.modules if name.partition(".")[0] in _STAND_INS]
