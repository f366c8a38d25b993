"""`RPi.GPIO` on pins that stand in a file: put the folder above this package on PYTHONPATH.

The file PINS_FILE has a line for each write: the process, its CPU time in seconds, the pin (BCM), its level.
As with rpi-lgpio a pin belongs to the process that has set it up, until that ends, and a second set-up by the
same process does nothing.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import TextIO

BCM, BOARD = 11, 10
OUT, IN = 0, 1

_file = Path(os.environ["PINS_FILE"])
_mode: int | None = None
_held: dict[int, TextIO] = {}
_lock = threading.Lock()


def setmode(mode: int) -> None:
    global _mode  # noqa: PLW0603  as the real module
    _mode = mode


def setwarnings(_enabled: bool) -> None:  # noqa: FBT001
    pass


def gpio_function(pin: int) -> int:
    return OUT if f" {pin} " in _file.read_text(encoding="ascii") else IN


def setup(pin: int, _direction: int, *, initial: int) -> None:
    if _mode is None:
        raise RuntimeError("Please set pin numbering mode")
    with _lock:
        if pin not in _held:
            claim = _file.with_name(f"{_file.name}.{pin}").open("w", encoding="ascii")
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                claim.close()
                raise Exception("'GPIO busy'") from None  # noqa: TRY002  as lgpio.error
            _held[pin] = claim
            _drive(pin, initial)


def output(pin: int, value: int) -> None:
    with _lock:
        if pin not in _held:
            raise RuntimeError("The GPIO channel has not been set up as an OUTPUT")
        _drive(pin, value)


class PWM:
    def __init__(self, pin: int, _frequency: float) -> None:
        self._pin = pin

    def start(self, percent: float) -> None:
        output(self._pin, percent / 100)

    ChangeDutyCycle = start

    def stop(self) -> None:
        output(self._pin, 0)


def release() -> None:
    """What the end of a process does."""
    while _held:
        _held.popitem()[1].close()


def _drive(pin: int, level: float) -> None:
    line = f"{os.getpid()} {time.process_time():.3f} {pin} {level:g}\n"
    with _file.open("a", encoding="ascii") as file:
        file.write(line)
