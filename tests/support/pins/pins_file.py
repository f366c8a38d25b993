"""Pins that stand in a file, for the stand-ins of the libraries: put this folder on PYTHONPATH.

The file PINS_FILE has a line for each write: the process, its CPU time in seconds, the number of the pin, its
level, and the monotonic time in seconds. A level outlives its process, as on a Raspberry Pi.
PINS_CHIPS has the labels of the GPIO chips by number, "refused" for one without permission.
"""

import json
import os
import time
from pathlib import Path

_ALONE = '{"0": "pinctrl-bcm2711"}'


def pins_file():
    return Path(os.environ["PINS_FILE"])


def chips():
    return dict(json.loads(os.environ.get("PINS_CHIPS", _ALONE)))


def drive(pin, level):
    text = f"{os.getpid()} {time.process_time():.3f} {pin} {level} {time.monotonic():.6f}\n"
    with pins_file().open("a", encoding="ascii") as file:
        file.write(text)


def level_of(pin):
    """The level that was written last, None without one."""
    writes = map(str.split, pins_file().read_text(encoding="ascii").splitlines())
    return next((int(level) for _, _, its, level, _ in reversed(list(writes)) if int(its) == pin), None)
