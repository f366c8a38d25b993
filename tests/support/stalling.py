"""growd that stalls when it is told to: `python stalling.py PROGRAM ARGUMENT...`, with growd as the program.

At SIGUSR1 it reads the file STALL. "loop 5" there blocks the event loop for 5 s; "lock 5" holds the lock of
the interpreter for as long, as C code can. The file STALL with the suffix .writes gets a line for each level
that is written to a pin: the pin, the share of time at high level, the monotonic time in seconds.
"""

import ctypes
import os
import runpy
import signal
import sys
import time
from pathlib import Path

from growd_drivers.pins import Pins

STALL = Path(os.environ["STALL"])
WRITES = STALL.with_suffix(".writes")


def stall(*_):
    kind, seconds = STALL.read_text(encoding="ascii").split()
    if kind == "loop":
        time.sleep(float(seconds))  # other threads run
    else:
        ctypes.PyDLL(None).sleep(int(seconds))  # sleep(3), and no other thread runs


def record_writes():
    write = Pins.write

    def recorded(pins, pin, high, *arguments):
        with WRITES.open("a", encoding="ascii") as file:
            file.write(f"{pin} {high:g} {time.monotonic():.6f}\n")
        return write(pins, pin, high, *arguments)

    Pins.write = recorded


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, stall)
    record_writes()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
