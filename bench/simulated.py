"""growd with the CPU of its simulated hardware counted apart: what bench/idle.py starts for a profile.

What a driver calls is timed by the thread's own CPU clock, in growd's process: the kernel's I2C as smbus2
sees it, the pins, PWM and its files. On a Raspberry Pi the kernel and the chips do that. Counting itself
counts as growd's. The sum stands in the file that is the first argument; the others are growd's.
"""

from __future__ import annotations

import functools
import mmap
import struct
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from growd_cli.__main__ import main as growd
from growd_hwsim.gpio import SimulatedLines
from growd_hwsim.i2c import I2CKernel
from growd_hwsim.pwm_sysfs import SimulatedPwmSysfs

if TYPE_CHECKING:
    from collections.abc import Callable

SUM = struct.Struct("<q")  # nanoseconds


class Meter:
    """The CPU of calls, of all threads together; a call within a call is counted once."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(SUM.pack(0))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), SUM.size)
        self._lock = threading.Lock()
        self._within = threading.local()

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same, counted."""

        @functools.wraps(call)
        def timed(*arguments: Any, **named: Any) -> Any:
            if getattr(self._within, "call", False):
                return call(*arguments, **named)
            self._within.call = True
            began = time.thread_time_ns()
            try:
                return call(*arguments, **named)
            finally:
                self._add(time.thread_time_ns() - began)
                self._within.call = False

        return timed

    def _add(self, nanoseconds: int) -> None:
        with self._lock:
            (total,) = SUM.unpack_from(self._memory)
            SUM.pack_into(self._memory, 0, total + nanoseconds)


def count(meter: Meter) -> None:
    """Have the meter count what drivers call."""
    for kind in (I2CKernel, SimulatedLines, SimulatedPwmSysfs):
        for name, member in [*vars(kind).items()]:
            if callable(member) and not name.startswith("_"):
                setattr(kind, name, meter.counted(member))


if __name__ == "__main__":
    count(Meter(Path(sys.argv.pop(1))))
    growd()
