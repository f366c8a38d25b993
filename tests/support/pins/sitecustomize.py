"""Lets the pin keeper drive the lines of the stand-in for gpiod, which are files.

Python imports this at its start. The keeper sets a line by a call of the kernel.
"""

import fcntl
import sys

if "growd_drivers.pin_keeper" in sys.orig_argv:
    from pathlib import Path

    from pins_file import drive

    def drive_file(line, _code, levels):
        drive(int(Path(f"/proc/self/fd/{line}").readlink().suffix[1:]), levels[0])

    fcntl.ioctl = drive_file
