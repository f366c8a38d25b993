"""The package gpiod on lines that stand in a file: put the folder above this package on PYTHONPATH.

The file PINS_FILE has a line for each write: the process, its CPU time in seconds, the number of the line,
its level. A level outlives its process, as with the kernel of Raspberry Pi OS. A line belongs to the process
that has requested it, until that ends. PINS_CHIPS has the labels of the chips by number, "refused" for one
without permission.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, TextIO

from gpiod.line import Bias, Direction, Value

_ALONE = '{"0": "pinctrl-bcm2711"}'
_LINES = 54
_CALL_S = 0.001  # of a call of the kernel, during which other threads run


@dataclass
class LineSettings:
    direction: Direction = Direction.AS_IS
    output_value: Value = Value.INACTIVE
    bias: Bias | None = None
    debounce_period: timedelta = timedelta(0)


class Chip:
    def __init__(self, path: str) -> None:
        chips = json.loads(os.environ.get("PINS_CHIPS", _ALONE))
        self._label = chips.get(path.removeprefix("/dev/gpiochip"))
        if self._label is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if self._label == "refused":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        self._is_open = True
        time.sleep(_CALL_S)

    def close(self) -> None:
        self._is_open = False

    def get_info(self) -> SimpleNamespace:
        return SimpleNamespace(label=self._label, num_lines=_LINES)

    def get_line_info(self, line: int) -> SimpleNamespace:
        assert self._is_open
        file = pins_file()
        is_out = f" {line} " in file.read_text(encoding="ascii")
        owner = file.with_name(f"{file.name}.{line}")
        return SimpleNamespace(
            direction=Direction.OUTPUT if is_out else Direction.INPUT,
            consumer=owner.read_text(encoding="ascii") if owner.exists() else "",
        )

    def request_lines(self, config: dict[int, LineSettings], consumer: str) -> LineRequest:
        assert self._is_open
        ((line, settings),) = config.items()
        time.sleep(_CALL_S)
        if settings.direction is Direction.INPUT:
            return LineRequest(line, None, consumer, settings)
        assert settings.direction is Direction.OUTPUT
        return LineRequest(line, settings.output_value, consumer, settings)


class LineRequest:
    """The lines of inputs have the level that was written to the file last, or else that of their pull."""

    requested: ClassVar[dict[int, LineSettings]] = {}

    def __init__(self, line: int, value: Value | None, consumer: str, settings: LineSettings) -> None:
        self.requested[line] = self._settings = settings
        file = pins_file()
        self._owner: TextIO = file.with_name(f"{file.name}.{line}").open("a", encoding="ascii")
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._owner.close()
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY)) from None
        self._owner.truncate(0)
        self._owner.write(consumer)
        self._owner.flush()
        if value is not None:
            self.set_value(line, value)

    @property
    def fd(self) -> int:
        return self._owner.fileno()

    def set_value(self, line: int, value: Value) -> None:
        assert not self._owner.closed
        drive(line, value.value)

    def get_value(self, line: int) -> Value:
        writes = pins_file().read_text(encoding="ascii").splitlines()
        levels = [int(level) for _, _, pin, level in map(str.split, writes) if int(pin) == line]
        return Value(levels[-1] if levels else int(self._settings.bias is Bias.PULL_UP))

    def release(self) -> None:
        self._owner.close()


def pins_file() -> Path:
    return Path(os.environ["PINS_FILE"])


def drive(line: int, level: int) -> None:
    text = f"{os.getpid()} {time.process_time():.3f} {line} {level}\n"
    with pins_file().open("a", encoding="ascii") as file:
        file.write(text)
