"""The package gpiod on the pins of `pins_file`. A line belongs to the process that has requested it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import ClassVar

from pins_file import chips, drive, level_of, pins_file

from gpiod.line import Bias, Direction, Value

_LINES = 54
_CALL_S = 0.001  # of a call of the kernel, during which other threads run


@dataclass
class LineSettings:
    direction: Direction = Direction.AS_IS
    output_value: Value = Value.INACTIVE
    bias: Bias | None = None
    debounce_period: timedelta = timedelta(0)


class Chip:
    def __init__(self, path):
        self._label = chips().get(path.removeprefix("/dev/gpiochip"))
        if self._label is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if self._label == "refused":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        self._is_open = True
        time.sleep(_CALL_S)

    def close(self):
        self._is_open = False

    def get_info(self):
        return SimpleNamespace(label=self._label, num_lines=_LINES)

    def get_line_info(self, line):
        assert self._is_open
        file = pins_file()
        owner = file.with_name(f"{file.name}.{line}")
        return SimpleNamespace(
            direction=Direction.INPUT if level_of(line) is None else Direction.OUTPUT,
            consumer=owner.read_text(encoding="ascii") if owner.exists() else "",
        )

    def request_lines(self, config, consumer):
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

    def __init__(self, line, value, consumer, settings):
        self.requested[line] = self._settings = settings
        file = pins_file()
        self._owner = file.with_name(f"{file.name}.{line}").open("a", encoding="ascii")
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

    def reconfigure_lines(self, config):
        ((line, settings),) = config.items()
        self.requested[line] = self._settings = settings
        if settings.direction is Direction.OUTPUT:
            self.set_value(line, settings.output_value)

    @property
    def fd(self):
        return self._owner.fileno()

    def set_value(self, line, value):
        assert not self._owner.closed
        drive(line, value.value)

    def get_value(self, line):
        level = level_of(line)
        return Value(int(self._settings.bias is Bias.PULL_UP) if level is None else level)

    def release(self):
        self._owner.close()
